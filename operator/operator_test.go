package operator_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestMainReportsTheErrorAndExits(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	valid := filepath.Join(t.TempDir(), "config")
	NewWithT(t).Expect(os.WriteFile(valid, []byte(kubeconfig), 0o600)).To(Succeed())
	p := operator.Program{
		Name:  "test",
		Flags: func(fs *flag.FlagSet) { fs.Int("own", 0, "a flag of its own") },
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			if env.Context == nil || !strings.HasPrefix(env.Cluster.Config().UserAgent, "test/") || env.Events == nil || env.Leader != nil {
				return nil, errors.New("the environment is wrong")
			}
			return nil, errors.New("no controllers today")
		},
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":                {[]string{"--help"}, 0, "-own"},
		"an unknown flag":     {[]string{"--unknown"}, 2, "-unknown"},
		"an argument":         {[]string{"what"}, 2, `unexpected argument "what"`},
		"an unknown format":   {[]string{"--log-format=xml"}, 2, `--log-format is "xml"`},
		"no cluster":          {nil, 1, "set --kubeconfig or KUBECONFIG"},
		"a missing file":      {[]string{"--kubeconfig=/none"}, 1, "/none"},
		"faults of the setup": {[]string{"--kubeconfig=" + valid, "--listen-addr="}, 1, "no controllers today"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var said bytes.Buffer
			g.Expect(p.Main(c.args, &said)).To(Equal(c.code))
			g.Expect(said.String()).To(ContainSubstring(c.says))
		})
	}
}

func TestWithJSONEachLineIsARecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	NewWithT(t).Expect(os.WriteFile(file, []byte(kubeconfig), 0o600)).To(Succeed())
	p := operator.Program{Name: "test", Setup: func(operator.Env) ([]*reconcile.Controller, error) {
		klog.Background().Info("a line of klog")
		return nil, errors.Join(errors.New("no controllers"), errors.New("no permissions"))
	}}
	for says, args := range map[string][]string{
		"no permissions": {"--log-format=json", "--kubeconfig=" + file, "--listen-addr="},
		"-unknown":       {"--unknown", "--log-format=json"},
		"/none":          {"-log-format=json", "--kubeconfig=/none"},
	} {
		g := NewWithT(t)
		var said bytes.Buffer
		g.Expect(p.Main(args, &said)).NotTo(BeZero())
		var record map[string]any
		for line := range strings.Lines(said.String()) {
			record = nil
			g.Expect(json.Unmarshal([]byte(line), &record)).To(Succeed(), line)
		}
		g.Expect(record).To(And(HaveKeyWithValue("program", "test"), HaveKeyWithValue("level", "ERROR"),
			HaveKeyWithValue("err", ContainSubstring(says))))
	}
}

func begins(operator.Env) ([]*reconcile.Controller, error) { return nil, errors.New("it has begun") }

func TestTheControllersOfSetupAreChecked(t *testing.T) {
	file := answers(t, func(authorizationv1.ResourceAttributes) bool { return true })
	none := func(operator.Env) ([]*reconcile.Controller, error) { return nil, nil }
	alone := func(operator.Env) ([]*reconcile.Controller, error) { return podController(func() {}) }
	two := func(operator.Env) ([]*reconcile.Controller, error) {
		one, err := podController(func() {})
		return append(one, one...), err
	}
	nothing := func(operator.Env) ([]*reconcile.Controller, error) { return []*reconcile.Controller{nil}, nil }
	for says, p := range map[string]operator.Program{
		"operator.Program.Setup is set: must return at least one controller":                 {Setup: none},
		"must not return nil as controller [0]: check the error that reconcile.New returned": {Setup: nothing},
		"must return one controller, whose keys the replicas share, and not 2":               {Setup: two, Replicas: operator.Sharded},
		"no controller has the Leader or the Shards":                                         {Setup: alone},
		"operator.Program.Shards is set: must return shards": {Setup: none, Replicas: operator.Sharded, Shards: func(leader.Lease, leader.Options) (reconcile.Shards, error) {
			return nil, nil
		}},
		"operator.Program.Setup is nil: must be a function": {},
	} {
		g := NewWithT(t)
		p.Name = "test"
		var said bytes.Buffer
		g.Expect(p.Main([]string{"--kubeconfig=" + file, "--leader-elect", "--leader-elect-identity=me", "--listen-addr="}, &said)).NotTo(BeZero())
		g.Expect(said.String()).To(ContainSubstring(says))
	}
}

func TestBesideRunsUntilTheControllersHaveDrained(t *testing.T) {
	g := NewWithT(t)
	begun, release := make(chan struct{}), make(chan struct{})
	p := operator.Program{
		Name: "test",
		Setup: func(operator.Env) ([]*reconcile.Controller, error) {
			return podController(func() {
				close(begun)
				<-release
			})
		},
		Beside: func(ctx context.Context, env operator.Env) error {
			<-begun
			g.Expect(terminate()).To(Succeed())
			<-env.Context.Done()
			g.Consistently(ctx.Done(), 100*time.Millisecond).ShouldNot(BeClosed())
			close(release)
			<-ctx.Done()
			return nil
		},
	}
	g.Expect(p.Main([]string{"--kubeconfig=" + kubeconfigOf(t, "http://127.0.0.1:1"), "--listen-addr="}, io.Discard)).To(BeZero())
}

func TestAnErrorBesideEndsTheProgram(t *testing.T) {
	g := NewWithT(t)
	var said bytes.Buffer
	begun := make(chan struct{})
	p := operator.Program{
		Name:  "test",
		Setup: func(operator.Env) ([]*reconcile.Controller, error) { return podController(func() { close(begun) }) },
		Beside: func(context.Context, operator.Env) error {
			<-begun
			return errors.New("no certificate")
		},
	}
	g.Expect(p.Main([]string{"--kubeconfig=" + kubeconfigOf(t, "http://127.0.0.1:1"), "--listen-addr="}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("test: no certificate"))
	p.Setup = func(operator.Env) ([]*reconcile.Controller, error) { return podController(func() {}) }
	p.Beside = func(context.Context, operator.Env) error { return terminate() }
	g.Expect(p.Main([]string{"--kubeconfig=" + kubeconfigOf(t, "http://127.0.0.1:1"), "--listen-addr="}, &said)).To(BeZero())
}

// The error of a cancelled context only says that the program was stopped. It
// must not hide an error that happened meanwhile.
func TestAnErrorAfterTheSignalIsNotLost(t *testing.T) {
	failed := errors.New("the certificate was not written")
	const stopped = `msg="stopped after a signal"`
	for name, c := range map[string]struct {
		ends func(ctx context.Context) error
		code int
		says string
	}{
		"as it was told to": {context.Context.Err, 0, stopped},
		"wrapped":           {func(ctx context.Context) error { return fmt.Errorf("serving: %w", ctx.Err()) }, 0, stopped},
		"with an error":     {func(ctx context.Context) error { return errors.Join(ctx.Err(), failed) }, 1, "was not written"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			begun := make(chan struct{})
			p := operator.Program{
				Name:  "test",
				Setup: func(operator.Env) ([]*reconcile.Controller, error) { return podController(func() { close(begun) }) },
				Beside: func(ctx context.Context, _ operator.Env) error {
					<-begun
					if err := terminate(); err != nil {
						return err
					}
					<-ctx.Done()
					return c.ends(ctx)
				},
			}
			var said bytes.Buffer
			g.Expect(p.Main([]string{"--kubeconfig=" + kubeconfigOf(t, "http://127.0.0.1:1"), "--listen-addr="}, &said)).To(Equal(c.code))
			g.Expect(said.String()).To(ContainSubstring(c.says))
			g.Expect(said.String()).NotTo(ContainSubstring("stopped before the controllers ran"))
		})
	}
	g := NewWithT(t)
	p := operator.Program{Name: "test", Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
		err := terminate()
		<-env.Context.Done()
		return nil, errors.Join(err, env.Context.Err(), failed)
	}}
	g.Expect(p.Main([]string{"--kubeconfig=" + kubeconfigOf(t, "http://127.0.0.1:1"), "--listen-addr="}, io.Discard)).To(Equal(1))
}

func TestFaultsOfTheProgramAreNamed(t *testing.T) {
	own := func(name string) func(*flag.FlagSet) {
		return func(fs *flag.FlagSet) { fs.Bool(name, false, "") }
	}
	for says, p := range map[string]operator.Program{
		"operator.Program.Flags is set: must not define --v, which every program has: choose a different name": {Flags: own("v")},
		"must not define --leader-elect-identity, which every program has":                                     {Flags: own("leader-elect-identity")},
		"must not define --west-kubeconfig, which every program has":                                           {Flags: own("west-kubeconfig"), Clusters: []operator.Cluster{{Name: "west"}}},
		"must not define --help, which every program has":                                                      {Flags: own("help")},
		"operator.Program.Shards is set: must be nil unless Replicas is Sharded": {Shards: func(leader.Lease, leader.Options) (reconcile.Shards, error) {
			return nil, nil
		}},
		`operator.Program.Needs[0] is "get /metrics": must be verbs, a resource`:                              {Needs: []string{"get /metrics"}},
		`operator.Program.Needs[0] is "get pods/": must be`:                                                   {Needs: []string{"get pods/"}},
		`operator.Program.Needs[0] is "get Pods": must be`:                                                    {Needs: []string{"get Pods"}},
		`operator.Program.Needs[0] is "get .apps": must be`:                                                   {Needs: []string{"get .apps"}},
		`operator.Program.Clusters[1] is "west": must not be the name of another cluster`:                     {Clusters: []operator.Cluster{{Name: "west"}, {Name: "west"}}},
		`operator.Program.Clusters[0] is "": `:                                                                {Clusters: []operator.Cluster{{Name: ""}}},
		`operator.Program.Name is "Web Site": a lowercase RFC 1123 label`:                                     {Name: "Web Site"},
		`operator.Program.Needs[0] is "pods": must be verbs, a resource`:                                      {Needs: []string{"pods"}},
		`operator.Program.Needs[0] is "get  pods": must be verbs`:                                             {Needs: []string{"get  pods"}},
		`operator.Program.Needs[0] is "get, pods": must be verbs`:                                             {Needs: []string{"get, pods"}},
		`operator.Program.Needs[0] is "get pods a b": must be verbs`:                                          {Needs: []string{"get pods a b"}},
		`operator.Program.Needs[0] is "get pods by": must be verbs`:                                           {Needs: []string{"get pods by"}},
		`operator.Program.Needs[0] is "get pods a by name": must be verbs`:                                    {Needs: []string{"get pods a by name"}},
		`operator.Program.Needs[0] is "get pods in": must be verbs`:                                           {Needs: []string{"get pods in"}},
		`operator.Program.Needs[0] is "get pods in a in b": must be verbs`:                                    {Needs: []string{"get pods in a in b"}},
		`operator.Program.Needs[0] is "get pods on east": there is no cluster "east": name it in Program.Clu`: {Needs: []string{"get pods on east"}},
	} {
		g := NewWithT(t)
		p.Setup, p.Name = begins, cmp.Or(p.Name, "test")
		var said bytes.Buffer
		g.Expect(p.Main(nil, &said)).To(Equal(1), "no command line would help")
		g.Expect(said.String()).To(ContainSubstring(says))
		g.Expect(p.Main([]string{"--unknown"}, io.Discard)).To(Equal(1), "the program is wrong, too")
	}
	g := NewWithT(t)
	var said bytes.Buffer
	p := operator.Program{Name: "test", Setup: begins, Replicas: operator.Independent, Flags: own("leader-elect-identity")}
	g.Expect(p.Main([]string{"-h"}, &said)).To(Equal(0), "a flag that this program does not have otherwise")
}

func TestAWrongCommandLineIsReportedOnce(t *testing.T) {
	g := NewWithT(t)
	var said bytes.Buffer
	g.Expect(operator.Program{Name: "test", Setup: begins}.Main([]string{"--namespace=a"}, &said)).To(Equal(2))
	g.Expect(said.String()).To(Equal("test: flag provided but not defined: -namespace: see --help\n"))
}

func TestACollectorRegisteredTwiceIsNamed(t *testing.T) {
	g := NewWithT(t)
	var said bytes.Buffer
	collector := prometheus.NewCounter(prometheus.CounterOpts{Name: "own"})
	p := operator.Program{Name: "test", Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
		env.Metrics.MustRegister(collector, collector)
		var there prometheus.AlreadyRegisteredError
		g.Expect(errors.As(env.Metrics.Register(collectors.NewGoCollector()), &there)).To(BeTrue(), "the program has it")
		libraries, ok := prometheus.DefaultRegisterer.(*prometheus.Registry)
		g.Expect(ok).To(BeTrue())
		g.Expect(env.Metrics.Register(libraries)).To(MatchError(And(ContainSubstring("*prometheus.Registry"),
			ContainSubstring("leave out the Go, process and client-go request collectors"))))
		g.Expect(env.Metrics.Unregister(collector)).To(BeTrue())
		return podController(func() {})
	}}
	g.Expect(p.Main([]string{"--kubeconfig=" + kubeconfigOf(t, "http://127.0.0.1:1"), "--listen-addr=127.0.0.1:0"}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("registering collector *prometheus.counter on Env.Metrics: duplicate metrics " +
		"collector registration attempted: register it once"))

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	ended := errors.New("it has begun")
	g.Expect((&operator.Server{Address: "127.0.0.1:0", Cluster: unreachable(g), Metrics: registry}).RunSetup(t.Context(),
		func(context.Context) ([]*reconcile.Controller, error) { return nil, ended })).To(MatchError(ended), "there already is as good")
	registry = prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "go_goroutines", Help: "others"}))
	g.Expect((&operator.Server{Address: "127.0.0.1:0", Cluster: unreachable(g), Metrics: registry}).Run(t.Context())).
		To(MatchError(ContainSubstring("registering the metrics of the Go runtime: ")))
}

func TestPartsWithoutAClusterAreRefused(t *testing.T) {
	g := NewWithT(t)
	none := ContainSubstring("the cluster is nil: check the error that cluster.New returned")
	g.Expect(operator.CheckPermissions(t.Context(), nil, time.Minute, "get pods")).To(MatchError(none))
	g.Expect(operator.Env{Context: t.Context()}.CheckPermissions("get pods")).To(MatchError(none))
	_, _, err := operator.Recorder(t.Context(), nil, "test")
	g.Expect(err).To(MatchError(none))
	g.Expect(operator.Authorize(nil)(httptest.NewRequest(http.MethodGet, "/debug/homeostat", nil))).To(MatchError(none))
	g.Expect((&operator.Server{}).RunSetup(t.Context(), nil)).To(MatchError(ContainSubstring("setup is nil")))
}

func unreachable(g *WithT) *cluster.Cluster {
	c, err := cluster.New(&rest.Config{Host: "http://127.0.0.1:1"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	return c
}

func TestHelpSaysWhatTheProgramDoes(t *testing.T) {
	g := NewWithT(t)
	help := func(p operator.Program) string {
		var said bytes.Buffer
		g.Expect(p.Main([]string{"-h"}, &said)).To(Equal(0))
		return said.String()
	}
	g.Expect(help(operator.Program{Name: "test", Usage: "test: does nothing", Setup: begins})).To(And(
		HavePrefix("test: does nothing\n"), ContainSubstring("-leader-elect"), ContainSubstring("-startup-timeout")))
	g.Expect(help(operator.Program{Name: "test", Replicas: operator.Independent, Setup: begins})).To(And(
		HavePrefix("Usage of test:\n"), Not(ContainSubstring("-leader-elect"))))
}

func TestThePageNeedsATokenEvenFromLocalhost(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(&rest.Config{Host: "http://127.0.0.1:1"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	access := operator.Authorize(c)
	from := func(path, address string) error {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr = address
		return access(r)
	}
	g.Expect(from("/metrics", "10.0.0.1:1")).To(Succeed())
	for _, path := range []string{"/debug/homeostat", "/debug/pprof/heap"} {
		g.Expect(from(path, "127.0.0.1:1")).To(MatchError(status.ErrUnauthenticated))
		g.Expect(from(path, "10.0.0.1:1")).To(MatchError(status.ErrUnauthenticated))
	}
}
