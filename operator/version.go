package operator

import (
	"cmp"
	"runtime/debug"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

// Version returns the module's version, its commit and the Go version, as the
// compiler recorded them: "v1.2.3 (commit 0123456789ab, modified) go1.26.0".
// A module version that was not recorded reads "(devel)", a commit "unknown".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	commit := "unknown"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += ", modified"
		}
	}
	return cmp.Or(info.Main.Version, "(devel)") + " (commit " + commit + ") " + info.GoVersion
}

// revision is the version alone, for the user agent.
func revision() string {
	version, _, _ := strings.Cut(Version(), " ")
	return version
}

// memoryShare is the part of the container's memory that the garbage collector
// may let the heap fill.
const memoryShare = 0.9

// LimitMemory sets the garbage collector's limit to 90 % of the container's
// memory limit, unless GOMEMLIMIT is set or there is no such limit. (The Go
// runtime itself sets GOMAXPROCS from the container's CPU limit.) It logs the new
// limit, or an error, at V(1).
func LimitMemory(logger logr.Logger) {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare))
	switch {
	case err != nil:
		logger.V(1).Info("leaving the memory limit as it is", "reason", err.Error())
	case limit > 0:
		logger.V(1).Info("memory limit set", "bytes", limit)
	}
}
