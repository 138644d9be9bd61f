package cli

import (
	"reflect"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/leader"
)

// flagged returns the settings of a command line, without the connection, and
// the flags that it may have.
func flagged(t *testing.T, args ...string) (settings, *pflag.FlagSet) {
	t.Helper()
	s := &settings{connection: newConnection()}
	all := newGroup()
	for _, g := range s.groups() {
		if g.title != "Cluster" {
			all.AddFlagSet(g.flags)
		}
	}
	NewWithT(t).Expect(all.Parse(args)).To(Succeed())
	got := *s
	got.connection = nil
	return got, all
}

func TestTheDefaultsOfFlags(t *testing.T) {
	got, _ := flagged(t)
	NewWithT(t).Expect(got).To(Equal(settings{
		output: "jsonpath", allowMissing: true, workers: 1, timeout: 10 * time.Minute, gracePeriod: 20 * time.Second,
		maximumErrors: 20, retryCount: 2, listenAddr: "127.0.0.1:11251", logFormat: "text",
		durations: leader.Options{LeaseDuration: 15 * time.Second},
	}))
}

// Each flag, under one of its names, sets one thing and nothing else.
func TestEachFlagSetsWhatItIsNamedAfter(t *testing.T) {
	known := map[string]bool{"version": true, "namespace": true} // of cobra, and of the connection
	for _, c := range []struct {
		arg string
		set func(s *settings)
	}{
		{"-A", func(s *settings) { s.allNamespaces = true }},
		{"--all-namespaces", func(s *settings) { s.allNamespaces = true }},
		{"-lx", func(s *settings) { s.selector = "x" }},
		{"--selector=x", func(s *settings) { s.selector = "x" }},
		{"--field-selector=x", func(s *settings) { s.fieldSelector = "x" }},
		{"--wait", func(s *settings) { s.wait = true }},
		{"--template=x", func(s *settings) { s.templates = []string{"x"} }},
		{"-ax", func(s *settings) { s.arguments = []string{"x"} }},
		{"--argument=x", func(s *settings) { s.arguments = []string{"x"} }},
		{"-ox", func(s *settings) { s.output = "x" }},
		{"--output=x", func(s *settings) { s.output = "x" }},
		{"--allow-missing-template-keys=false", func(s *settings) { s.allowMissing = false }},
		{"--strict-templates", func(s *settings) { s.strict = true }},
		{"--type-env-var=x", func(s *settings) { s.typeVariable = "x" }},
		{"--object-env-var=x", func(s *settings) { s.objectVariable = "x" }},
		{"--identity-env", func(s *settings) { s.identity = true }},
		{"--stdin", func(s *settings) { s.stdin = true }},
		{"--env=x", func(s *settings) { s.env = []string{"x"} }},
		{"--allow-leading-dashes", func(s *settings) { s.allowLeadingDashes = true }},
		{"-dx", func(s *settings) { s.delete = []string{"x"} }},
		{"--delete=x", func(s *settings) { s.delete = []string{"x"} }},
		{"--names=x", func(s *settings) { s.names = []string{"x"} }},
		{"--max-orphans=7", func(s *settings) { s.maxOrphans = 7 }},
		{"--workers=7", func(s *settings) { s.workers = 7 }},
		{"--timeout=7s", func(s *settings) { s.timeout = 7 * time.Second }},
		{"--grace-period=7s", func(s *settings) { s.gracePeriod = 7 * time.Second }},
		{"--min-interval=7s", func(s *settings) { s.minInterval = 7 * time.Second }},
		{"--resync-period=7s", func(s *settings) { s.resync = 7 * time.Second }},
		{"--dry-run", func(s *settings) { s.dryRun = true }},
		{"--maximum-errors=7", func(s *settings) { s.maximumErrors = 7 }},
		{"--retry-count=7", func(s *settings) { s.retryCount = 7 }},
		{"--retry-on-exit-code=7", func(s *settings) { s.retryOnExitCode = 7 }},
		{"--once", func(s *settings) { s.runOnce = true }},
		{"--exit-after=7s", func(s *settings) { s.exitAfter = 7 * time.Second }},
		{"--leader-elect", func(s *settings) { s.leaderElect = true }},
		{"--lease=x", func(s *settings) { s.lease = "x" }},
		{"--leader-elect-lease-duration=7s", func(s *settings) { s.durations.LeaseDuration = 7 * time.Second }},
		{"--leader-elect-renew-deadline=7s", func(s *settings) { s.durations.RenewDeadline = 7 * time.Second }},
		{"--leader-elect-retry-period=7s", func(s *settings) { s.durations.RetryPeriod = 7 * time.Second }},
		{"-q", func(s *settings) { s.quiet = true }},
		{"--quiet", func(s *settings) { s.quiet = true }},
		{"--no-headers", func(s *settings) { s.quiet = true }},
		{"--listen-addr=x", func(s *settings) { s.listenAddr = "x" }},
		{"--print-metrics-on-exit", func(s *settings) { s.printMetricsOnExit = true }},
		{"--log-format=x", func(s *settings) { s.logFormat = "x" }},
		{"-v7", func(s *settings) { s.verbosity = 7 }},
		{"--v=7", func(s *settings) { s.verbosity = 7 }},
		{"--loglevel=7", func(s *settings) { s.verbosity = 7 }},
	} {
		got, all := flagged(t, c.arg)
		want, _ := flagged(t)
		c.set(&want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", c.arg, got, want)
		}
		all.VisitAll(func(f *pflag.Flag) { known[f.Name] = known[f.Name] || f.Changed })
	}
	_, all := flagged(t)
	all.VisitAll(func(f *pflag.Flag) {
		if !known[f.Name] {
			t.Errorf("--%s has no row", f.Name)
		}
	})
	NewWithT(t).Expect(all.Lookup("namespace")).To(HaveField("Shorthand", "n"))
}

// The options of the observer follow from the flags.
func TestOptionsFollowFromFlags(t *testing.T) {
	s := &settings{
		timeout: time.Minute, gracePeriod: 0, resync: time.Hour, workers: 3, names: []string{"x"}, maxOrphans: 0,
	}
	g := NewWithT(t)
	sweep := s.sweep()
	g.Expect(sweep).To(And(HaveField("Period", time.Hour), HaveField("Timeout", time.Minute),
		HaveField("MaxCount", 0), HaveField("MaxShare", 0.0)), "the SDK's safety limit")
	s.timeout, s.maxOrphans = 0, -1
	g.Expect(s.sweep()).To(And(HaveField("Timeout", noLimit), HaveField("MaxShare", 1.0)))
	s.maxOrphans = 7
	g.Expect(s.sweep()).To(And(HaveField("MaxCount", 7), HaveField("MaxShare", And(BeNumerically(">", 0), BeNumerically("<", 1e-300)))))
}

func TestAUserNameOrAPasswordIsEnough(t *testing.T) {
	for _, c := range []struct{ flag, username, password string }{
		{"--username=me", "me", ""}, {"--password=secret", "", "secret"},
	} {
		config, _, err := connected(t, "--server=https://four:4", c.flag)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(config).To(And(HaveField("Username", c.username), HaveField("Password", c.password)))
	}
	kept := newConnection().tune(&rest.Config{Username: "kubeconfig's", Password: "its"})
	NewWithT(t).Expect(kept).To(And(HaveField("Username", "kubeconfig's"), HaveField("Password", "its")))
}

func TestWarningsDependOnTheFormat(t *testing.T) {
	for _, c := range []struct {
		s    settings
		want []string
	}{
		{settings{output: "jsonpath", templates: []string{"x", "{.y}", ""}}, []string{`template "x"`}},
		{settings{output: "jsonpath-as-json", templates: []string{"x"}}, []string{`template "x"`}},
		{settings{output: "json", templates: []string{"x"}}, []string{`template "x"`}},
		{settings{output: "go-template", templates: []string{"x"}}, nil},
		{settings{output: "jsonpath-file", templates: []string{"x"}}, nil},
		{settings{output: "jsonpath", arguments: []string{"x"}}, []string{`template "x"`}},
		{settings{output: "jsonpath", arguments: []string{"x", "{.y}"}}, []string{"several --argument flags"}},
		{settings{delete: []string{"x"}}, []string{"--delete without --names"}},
		{settings{delete: []string{"x"}, names: []string{"x"}}, nil},
	} {
		got := c.s.warnings()
		if len(got) != len(c.want) {
			t.Errorf("%+v: got %q", c.s, got)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%+v: got %q, want %q", c.s, got[i], c.want[i])
			}
		}
	}
}
