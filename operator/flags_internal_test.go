package operator

import (
	"bytes"
	"io"
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
		"a port that does not exist":  {"", "--listen-addr=:99999", `--listen-addr is ":99999"`},
		"retries without a pause":     {"", "--leader-elect-retry-period=0", "--leader-elect-retry-period is 0s: must be more"},
		"no time to renew":            {"", "--leader-elect-renew-deadline=0", "--leader-elect-renew-deadline is 0s: must be more"},
		"a duration without a unit":   {"", "--startup-timeout=3", "-startup-timeout: must be a duration with its unit, such as 15s"},
		"a lease of 100 years":        {"", "--leader-elect-lease-duration=876000h", "leader.Options.LeaseDuration is 876000h0m0s"},
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

// A flag that has no effect is a mistake of the person who has set it. The
// program must report it. Otherwise it shows only later, for example when two
// replicas work at once.
func TestAFlagWithoutAnEffectIsNamed(t *testing.T) {
	p := Program{
		Name: "test", Setup: func(Env) ([]*reconcile.Controller, error) { return nil, nil },
		FencingPolicy: func(Program, string) (string, error) { return "", nil },
	}
	for says, args := range map[string][]string{
		"--metrics-auth is set: must not be set with an empty --listen-addr": {"--metrics-auth", "--listen-addr="},
		"--tls-cert-file, --tls-private-key-file: must both be set, and":     {"--tls-cert-file=a", "--tls-private-key-file=b", "--listen-addr="},
		"--leader-elect-renew-deadline is set: must be used with --leader-":  {"--leader-elect-renew-deadline=20s"},
		"--leader-elect-resource-namespace is set: must be used with":        {"--leader-elect-resource-namespace=a"},
		"--leader-elect-identity is set: must be used with":                  {"--leader-elect-identity=a"},
		`--print-fencing-policy is "": must be the namespace`:                {"--print-fencing-policy="},
		`--print-fencing-policy is "a": must be the namespace`:               {"--print-fencing-policy=a"},
		"--v is -1: must not be negative":                                    {"--v=-1"},
	} {
		_, err := p.parse(args, io.Discard)
		g := NewWithT(t)
		g.Expect(err).To(MatchError(ContainSubstring(says)))
		g.Expect(err).To(BeAssignableToTypeOf(usageError{}))
	}
	for _, args := range [][]string{
		{"--leader-elect=false", "--leader-elect-lease-duration=1m"}, // a person switches it off
		{"--metrics-auth=false", "--listen-addr="},
		{"--print-fencing-policy=shop/website", "--leader-elect", "--leader-elect-lease-duration=1m"},
	} {
		_, err := p.parse(args, io.Discard)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%v", args)
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
