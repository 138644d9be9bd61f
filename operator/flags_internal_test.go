package operator

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
)

// The path answers 404 in a program without profiles.
func TestTheHelpNamesProfilesOnlyIfTheProgramServesThem(t *testing.T) {
	for _, p := range []Program{{Name: "a"}, {Name: "a", Profiles: http.NotFoundHandler()}} {
		usage := (&flags{clusters: map[string]*string{}}).define(p).Lookup("listen-addr").Usage
		NewWithT(t).Expect(usage).To(ContainSubstring("/debug/homeostat"))
		if p.Profiles == nil {
			NewWithT(t).Expect(usage).NotTo(ContainSubstring("pprof"))
		} else {
			NewWithT(t).Expect(usage).To(ContainSubstring("/debug/pprof/"))
		}
	}
}
