package operator

import (
	"cmp"
	"runtime/debug"
	"strings"
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
