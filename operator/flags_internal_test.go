package operator

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/reconcile"
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

// A mistake in a flag, or in the environment that sets it, ends the program
// before it sends a request.
func TestAMistakeInAFlagIsNamedWithExitStatus2(t *testing.T) {
	for name, c := range map[string]struct {
		env, arg, says string
	}{
		"no identity":                 {"", "--leader-elect-identity=", `Identity is ""`},
		"an identity of two lines":    {"", "--leader-elect-identity=a\nb", "must not contain white space"},
		"a Pod's name of two lines":   {"POD_NAME=a\nb", "--leader-elect", "must not contain white space"},
		"a namespace that none has":   {"POD_NAMESPACE=A_b/c", "--leader-elect", `Namespace is "A_b/c"`},
		"a namespace with its line":   {"POD_NAMESPACE=a\n", "--leader-elect", `Namespace is "a\n"`},
		"no time to start":            {"", "--startup-timeout=0", "--startup-timeout is 0s"},
		"less than no time to start":  {"", "--startup-timeout=-1s", "--startup-timeout is -1s"},
		"retries beyond the deadline": {"", "--leader-elect-retry-period=20s", "RetryPeriod is 20s"},
		"an address without a port":   {"", "--listen-addr=nowhere", `--listen-addr is "nowhere"`},
	} {
		t.Run(name, func(t *testing.T) {
			if variable, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(variable, value)
			}
			g := NewWithT(t)
			var said bytes.Buffer
			p := Program{Name: "test", Setup: func(Env) ([]*reconcile.Controller, error) { return nil, nil }}
			g.Expect(p.Main([]string{"--leader-elect", c.arg}, &said)).To(Equal(2), said.String())
			g.Expect(said.String()).To(ContainSubstring(c.says))
		})
	}
}

// The command line has checked the durations already. So durations that are not
// allowed show whether the shards get them.
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
