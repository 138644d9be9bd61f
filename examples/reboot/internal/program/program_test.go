package program_test

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/internal/stage"
	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/program"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/internal/apisim"
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
	f.Expect(err).To(MatchError(HaveSuffix("--prometheus-url, --blocking-query")))
	_, err = f.setUp(program.Controller(), "--stuck-after=-1s")
	f.Expect(err).To(MatchError(ContainSubstring("Options.StuckAfter is -1s")))
}

func TestTheMirrorRefusesAWrongCommandLine(t *testing.T) {
	g := NewWithT(t)
	for _, args := range [][]string{
		{}, {"--from=a"}, {"--to=b"}, {"--from=a", "--to=b", "--period=0s"}, {"--from=a", "--to=b", "c"}, {"--unknown"},
	} {
		g.Expect(program.RunMirror(args)).To(Equal(2), "%v", args)
	}
	g.Expect(program.RunMirror([]string{"-h"})).To(BeZero())
}

func TestTheMirrorRunsUntilSIGTERM(t *testing.T) {
	g := NewWithT(t)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGTERM) // so that it does not end this program
	defer signal.Stop(caught)
	directory := t.TempDir()
	from, to := filepath.Join(directory, "from"), filepath.Join(directory, "to")
	g.Expect(os.WriteFile(from, nil, 0o600)).To(Succeed())
	ended := make(chan int, 1)
	go func() { ended <- program.RunMirror([]string{"--from=" + from, "--to=" + to, "--period=10ms"}) }()
	const patience = "1m"
	g.Eventually(to, patience).Should(BeAnExistingFile())
	g.Expect(os.Remove(from)).To(Succeed())
	g.Eventually(func() error { _, err := os.Stat(to); return err }, patience).Should(MatchError(os.ErrNotExist))
	g.Expect(ended).NotTo(Receive())
	g.Expect(syscall.Kill(os.Getpid(), syscall.SIGTERM)).To(Succeed())
	g.Eventually(ended, patience).Should(Receive(BeZero()))
}
