package operator

import (
	"cmp"
	"runtime/debug"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

// Version returns the module's version, its commit and the Go version, as the
// compiler recorded them, such as "v1.2.3 (commit 0123456789ab, modified)
// go1.26.0". If the version of the module was not recorded, it reads "(devel)",
// and a commit that was not recorded reads "unknown". If nothing was recorded,
// Version returns "unknown".
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

// revision returns only the module's version, for the user agent.
func revision() string {
	version, _, _ := strings.Cut(Version(), " ")
	return version
}

// memoryShare is the fraction of the container's memory limit at which the
// garbage collector works harder.
const memoryShare = 0.9

// LimitMemory sets the garbage collector's limit to 90 % of the container's
// memory limit. It has no effect if GOMEMLIMIT is set or the container has no
// limit. The new limit, or an error, is logged at V(1). The Go runtime itself
// sets GOMAXPROCS from the container's CPU limit.
func LimitMemory(logger logr.Logger) {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare))
	switch {
	case err != nil:
		logger.V(1).Info("leaving the memory limit as it is", "reason", err.Error())
	case limit > 0:
		logger.V(1).Info("memory limit set", "bytes", limit)
	}
}
