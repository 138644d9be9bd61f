package program_test

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/program"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// A fixture is a simulated cluster with the node n, as a program reaches it.
type fixture struct {
	*WithT
	env operator.Env
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{WithT: NewWithT(t)}
	version := api.GroupVersion()
	sim, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{
		{Group: version.Group, Version: version.Version, Resource: api.Resource, Kind: "RebootGroup", Status: true},
	}})
	f.Expect(err).NotTo(HaveOccurred())
	f.env = operator.Env{Context: t.Context(), Cluster: stage.Reach(sim.Admin()), Metrics: prometheus.NewRegistry()}
	_, err = f.env.Cluster.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	return f
}

// setUp sets a program up with a command line.
func (f *fixture) setUp(p operator.Program, args ...string) ([]*reconcile.Controller, error) {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	p.Flags(flags)
	f.Expect(flags.Parse(args)).To(Succeed())
	return p.Setup(f.env)
}

// stderr captures standard error, and returns a function that returns it so
// far. The end of the test restores it.
func (f *fixture) stderr(t *testing.T) func() string {
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	f.Expect(err).NotTo(HaveOccurred())
	before := os.Stderr
	os.Stderr = file
	t.Cleanup(func() {
		os.Stderr = before
		f.Expect(file.Close()).To(Succeed())
	})
	return func() string {
		text, err := os.ReadFile(path)
		f.Expect(err).NotTo(HaveOccurred())
		return string(text)
	}
}

func TestTheProgramsHaveTheFlagsOfTheManual(t *testing.T) {
	t.Setenv("NODE_NAME", "from-the-environment")
	f := newFixture(t)
	defaults := func(p operator.Program) map[string]string {
		all, flags := map[string]string{}, flag.NewFlagSet(p.Name, flag.ContinueOnError)
		p.Flags(flags)
		flags.VisitAll(func(fl *flag.Flag) {
			all[fl.Name] = fl.DefValue
			f.Expect(fl.Usage).NotTo(BeEmpty(), fl.Name)
		})
		return all
	}
	f.Expect(defaults(program.Agent())).To(Equal(map[string]string{
		"node": "from-the-environment", "boot-id-file": machine.DefaultBootIDFile, "drain-period": "5s", "reboot-sentinel": "", "reboot-sentinel-period": "1m0s", "reboot-method": "logind",
		"dbus-socket": machine.DefaultSocket, "reboot-signal": "39", "reboot-command": machine.DefaultCommand,
		"patience": "0s",
	}))
	f.Expect(defaults(program.Controller())).To(Equal(map[string]string{
		"stuck-after": "15m0s", "prometheus-url": "", "blocking-query": "", "blocking-command": "",
	}))
}

func TestTheAgentActsForTheNodeThatItIsGiven(t *testing.T) {
	f := newFixture(t)
	for _, method := range []string{"logind", "signal", "command"} {
		f.Expect(f.setUp(program.Agent(), "--node=n", "--reboot-method="+method)).To(
			ConsistOf(HaveField("Name()", "reboot-agent")), method)
	}
	_, err := f.setUp(program.Agent(), "--node=n", "--reboot-method=magic")
	f.Expect(err).To(MatchError(`--reboot-method is "magic": set logind, signal or command`))
	_, err = f.setUp(program.Agent(), "--node=other")
	f.Expect(err).To(MatchError(ContainSubstring(`finding node "other": it does not exist: set --node or NODE_NAME`)))
	_, err = f.setUp(program.Agent(), "--node=n", "--drain-period=-1s")
	f.Expect(err).To(MatchError(ContainSubstring("Options.DrainPeriod is -1s")))
	_, err = f.setUp(program.Agent(), "--node=n", "--reboot-sentinel-period=-1s")
	f.Expect(err).To(MatchError(ContainSubstring("Options.AskPeriod is -1s")))
}

// The DaemonSet of an older release may still set it.
func TestTheAgentIgnoresAFlagOfAnOlderRelease(t *testing.T) {
	f := newFixture(t)
	var lines []string
	f.env.Context = logr.NewContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	f.Expect(f.setUp(program.Agent(), "--node=n", "--patience=10m")).To(HaveLen(1))
	f.Expect(lines).To(ContainElement(ContainSubstring("the flag --patience has no effect")))
	lines = nil
	f.Expect(f.setUp(program.Agent(), "--node=n")).To(HaveLen(1))
	f.Expect(lines).NotTo(ContainElement(ContainSubstring("--patience")))
}

func TestTheAgentSaysWhyItDidNotFindItsNode(t *testing.T) {
	f := newFixture(t)
	tap := &wiretap.Tap{Before: func(r *http.Request) *http.Response {
		return wiretap.Refuse(r, apierrors.NewForbidden(corev1.Resource("nodes"), "n", errors.New("no rights")))
	}}
	f.env.Cluster = stage.Reach(tap.Config(f.env.Cluster.Config()))
	_, err := f.setUp(program.Agent(), "--node=n")
	f.Expect(err).To(MatchError(And(HavePrefix(`finding node "n": `), HaveSuffix("no rights"))))
}

func TestTheAgentLooksAtTheFilesThatItIsGiven(t *testing.T) {
	f := newFixture(t)
	directory := t.TempDir()
	boot, sentinel := filepath.Join(directory, "boot_id"), filepath.Join(directory, "reboot-required")
	f.Expect(os.WriteFile(boot, []byte("b1\n"), 0o600)).To(Succeed())
	controllers, err := f.setUp(program.Agent(), "--node=n", "--boot-id-file="+boot, "--reboot-sentinel="+sentinel,
		"--reboot-sentinel-period=10ms", "--dbus-socket="+filepath.Join(directory, "no-bus"))
	f.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reconcile.RunAll(ctx, controllers...) }()
	asked := func() map[string]string {
		node, err := f.env.Cluster.Client().CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		f.Expect(err).NotTo(HaveOccurred())
		return node.Annotations
	}
	f.Eventually(controllers[0].Phase, "1m").Should(Equal(inspect.Working))
	f.Expect(asked()).To(BeEmpty())
	f.Expect(os.WriteFile(sentinel, nil, 0o600)).To(Succeed())
	f.Eventually(asked, "1m").Should(HaveKeyWithValue(protocol.Needed, HavePrefix("reboot-required ")))
	stop()
	f.Expect(<-ended).To(Succeed())
}

func TestTheControllerHasItsMetricsAndItsGate(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.setUp(program.Controller())).To(ConsistOf(HaveField("Name()", "reboot-controller")))
	_, err := f.setUp(program.Controller())
	f.Expect(err).To(MatchError(HavePrefix("registering the metrics of the groups: ")), "they are there already")
	_, err = f.setUp(program.Controller(), "--blocking-query=ALERTS")
	f.Expect(err).To(MatchError(HaveSuffix("(see --prometheus-url and --blocking-query)")))
	_, err = f.setUp(program.Controller(), "--stuck-after=-1s")
	f.Expect(err).To(MatchError(ContainSubstring("Options.StuckAfter is -1s")))
}

func elects(c *reconcile.Controller) bool { return c.Status(0).Elects }

// absent never leads.
type absent struct{}

func (absent) Run(ctx context.Context, _ func(context.Context) error) error {
	<-ctx.Done()
	return nil
}

func TestProgramsHaveTheEventsAndTheLeaderOfTheirEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		program     operator.Program
		annotations map[string]string
		says        string
		elects      bool
	}{
		"agent":      {program.Agent(), map[string]string{protocol.Now: "garbage"}, "Warning InvalidAnnotation ", false},
		"controller": {program.Controller(), map[string]string{protocol.Needed: "r"}, "Normal Requested ", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			nodes := f.env.Cluster.Client().CoreV1().Nodes()
			n, err := nodes.Get(t.Context(), "n", metav1.GetOptions{})
			f.Expect(err).NotTo(HaveOccurred())
			n.Annotations = c.annotations
			_, err = nodes.Update(t.Context(), n, metav1.UpdateOptions{})
			f.Expect(err).NotTo(HaveOccurred())
			recorder := events.NewFakeRecorder(100)
			f.env.Events = recorder
			t.Setenv("NODE_NAME", "n")
			controllers, err := f.setUp(c.program)
			f.Expect(err).NotTo(HaveOccurred())
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- reconcile.RunAll(ctx, controllers...) }()
			f.Eventually(recorder.Events, "1m").Should(Receive(HavePrefix(c.says)))
			stop()
			f.Expect(<-ended).To(Succeed())

			f.env.Leader, f.env.Metrics = absent{}, prometheus.NewRegistry()
			f.Expect(f.setUp(c.program)).To(ConsistOf(WithTransform(elects, Equal(c.elects))))
		})
	}
}

func TestTheMirrorRefusesAWrongCommandLine(t *testing.T) {
	f := newFixture(t)
	for _, args := range [][]string{
		{}, {"--from=a"}, {"--to=b"}, {"--from=a", "--to=b", "--period=0s"}, {"--from=a", "--to=b", "c"},
	} {
		said := f.stderr(t)
		f.Expect(program.RunMirror(args)).To(Equal(2), "%v", args)
		f.Expect(said()).To(Equal("reboot-agent mirror: --from and --to must name files, --period must be more than 0, and there must be no further arguments\n"))
	}
	said := f.stderr(t)
	f.Expect(program.RunMirror([]string{"--unknown"})).To(Equal(2))
	f.Expect(said()).To(HavePrefix("flag provided but not defined: -unknown"))
	f.Expect(program.RunMirror([]string{"-h"})).To(BeZero())
}

func TestTheMirrorRunsUntilSIGTERM(t *testing.T) {
	f := newFixture(t)
	said := f.stderr(t)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGTERM) // so that it does not end this program
	defer signal.Stop(caught)
	directory := t.TempDir()
	from, to := filepath.Join(directory, "from"), filepath.Join(directory, "to")
	f.Expect(os.WriteFile(from, nil, 0o600)).To(Succeed())
	ended := make(chan int, 1)
	go func() { ended <- program.RunMirror([]string{"--from=" + from, "--to=" + to, "--period=10ms"}) }()
	const patience = "1m"
	f.Eventually(to, patience).Should(BeAnExistingFile())
	f.Expect(os.Remove(from)).To(Succeed())
	f.Eventually(func() error { _, err := os.Stat(to); return err }, patience).Should(MatchError(os.ErrNotExist))
	f.Expect(ended).NotTo(Receive())
	f.Expect(said()).To(BeEmpty())
	full := filepath.Join(directory, "full")
	f.Expect(os.MkdirAll(filepath.Join(full, "directory"), 0o700)).To(Succeed())
	f.Expect(os.Rename(full, to)).To(Succeed())
	f.Eventually(said, patience).Should(MatchRegexp(
		`^reboot-agent mirror: mirroring the file that requests a reboot: [^\n]*, retrying\n`))
	f.Expect(os.RemoveAll(to)).To(Succeed())
	f.Expect(os.WriteFile(from, nil, 0o600)).To(Succeed())
	f.Eventually(to, patience).Should(BeARegularFile())
	f.Expect(terminate()).To(Succeed())
	f.Eventually(ended, patience).Should(Receive(BeZero()))
}

// terminate sends SIGTERM to this process.
func terminate() error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Signal(syscall.SIGTERM)
}
