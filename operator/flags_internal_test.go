package operator

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
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

// The command line has checked the durations already: those that nobody may
// have show whether the shards get them.
func TestTheSDKsShardsHaveTheDurationsOfTheFlags(t *testing.T) {
	g := NewWithT(t)
	home, err := cluster.New(&rest.Config{Host: "https://home"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	f := &flags{leaderElect: true, identity: "me", leaseNamespace: "d"}
	_, err = Program{Name: "test", Replicas: Sharded}.replicate(Env{}, home, f)
	g.Expect(err).NotTo(HaveOccurred())
	f.durations.RetryPeriod = 11 * time.Second
	_, err = Program{Name: "test", Replicas: Sharded}.replicate(Env{}, home, f)
	g.Expect(err).To(MatchError(ContainSubstring("RetryPeriod is 11s")))
}
