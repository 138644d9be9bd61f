package operator_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/ranges"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"The cluster is the one that --kubeconfig names, or else the one in which the process runs, or else the one of " +
			"the default kubeconfig rules ($KUBECONFIG, ~/.kube/config).": TestKubeconfigFlagIsPreferredToTheInClusterConfig,
		"The probes answer from the start: until the controllers run, /readyz says what the program is waiting " +
			"for.": TestProbesAnswerFromTheStart,
		"A program that declares its permissions checks them at the start.": TestAMissingPermissionIsNamedBeforeAnythingStarts,
		"It exits with an error that names each missing permission and its cluster, or the server that does not " +
			"answer.": func(t *testing.T) {
			TestAMissingPermissionIsNamedBeforeAnythingStarts(t)
			TestANeedMayNameItsNamespaceAndItsCluster(t)
			TestAServerThatDoesNotAnswerIsNamed(t)
		},
		"A missing permission for Events or for the debug page is only logged.": TestMissingOptionalPermissionsAreLogged,
		"The last Events are sent before the program ends, which waits at most 5 seconds for them.": func(t *testing.T) {
			TestTheLastEventsAreSent(t)
			TestTheEndWaitsForEventsForALimitedTime(t)
		},
		"Redefining a flag that every program has, naming a cluster twice and registering a collector twice are errors " +
			"that name the duplicate.": func(t *testing.T) {
			TestFaultsOfTheProgramAreNamed(t)
			TestACollectorRegisteredTwiceIsNamed(t)
		},
		"A kind that the server does not have ends the program before a controller runs, unless only optional " +
			"controllers watch the kind.": func(t *testing.T) {
			TestAWrongKindEndsTheProgram(t)
			TestAKindThatOnlyOptionalControllersWatchMayBeMissing(t)
		},
		"An optional cluster that does not answer delays no other cluster: /readyz names it and stays 200, and its controllers " +
			"start when it answers.": TestADeadOptionalClusterStopsNoOther,
		"All clusters are asked at the same time.":                             TestClustersAreAskedSideBySide,
		"All clients of a cluster use a changed kubeconfig without a restart.": TestAChangedKubeconfigIsReadAgain,
		"A kubeconfig that names a different server, or is known to lead to a different cluster, is not used.": func(t *testing.T) {
			TestCredentialsAreKeptWhileTheFileHasNoneForTheServer(t)
			TestAnotherClusterAtTheSameAddressIsRefused(t)
		},
		"A clock of this machine that differs from an API server's by more than a minute is a problem in /readyz, which names " +
			"the difference.": TestAClockThatIsWrongIsAProblemOfTheProgram,
		"With --leader-elect every cluster is fenced: writes of Setup's controllers are refused once the Lease may have " +
			"expired.": TestEveryClusterIsFenced,
		"With --print-fencing-policy, a program that has a FencingPolicy prints the admission policy for its leader's " +
			"writes, and exits.": TestThePolicyIsAboutWhatTheLeaderWrites,
		"If standard error does not take a line within a second, lines of the log are dropped until it does, /readyz names " +
			"that, and the work continues.": TestALogThatCannotBeWrittenStopsNoWork,
		"SIGTERM and SIGINT drain; a second signal ends the process at once.": TestASecondSignalEndsTheProcess,
		"The probes answer until everything has drained.":                     TestProbesAnswerWhileItDrains,
		"Beside runs until the controllers have drained; its error ends the program.": func(t *testing.T) {
			TestBesideRunsUntilTheControllersHaveDrained(t)
			TestAnErrorBesideEndsTheProgram(t)
		},
		"The exit code is 0 after a drain, 1 after an error or for a wrong Program, 2 for a wrong command " +
			"line.": func(t *testing.T) {
			TestFaultsOfTheProgramAreNamed(t)
			TestASecondSignalEndsTheProcess(t)
			TestMainReportsTheErrorAndExits(t)
			TestAnErrorAfterTheSignalIsNotLost(t)
		},
	})
}

// kubeconfigOf writes a kubeconfig of a server.
func kubeconfigOf(t *testing.T, server string) string {
	file := filepath.Join(t.TempDir(), "config")
	NewWithT(t).Expect(os.WriteFile(file, []byte(strings.Replace(kubeconfig, "http://127.0.0.1:1", server, 1)), 0o600)).To(Succeed())
	return file
}

// podController makes a controller of one Pod, each of whose reconciles calls
// f.
func podController(f func()) ([]*reconcile.Controller, error) {
	pods := informer.For(fake.NewClientset(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", ResourceVersion: "1"},
	}).CoreV1().Pods(""), nil)
	c, err := reconcile.New("test", pods, reconcile.Func[*corev1.Pod](
		func(context.Context, reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
			f()
			return reconcile.Result{}, nil
		}), nil)
	return []*reconcile.Controller{c}, err
}

func TestKubeconfigFlagIsPreferredToTheInClusterConfig(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", kubeconfigOf(t, "http://rules"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	g.Expect(operator.Config("")).To(HaveField("Host", "http://rules"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	_, err := operator.Config("")
	g.Expect(err).To(MatchError(ContainSubstring("loading the in-cluster config")), "there is no token here")
	g.Expect(operator.Config(kubeconfigOf(t, "http://named"))).To(HaveField("Host", "http://named"))
}

func TestAWrongKindEndsTheProgram(t *testing.T) {
	g := NewWithT(t)
	ran := false
	p := operator.Program{Name: "test", Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
		_, err := cluster.NewKind[*corev1.Pod, *corev1.PodList](env.Cluster,
			corev1.SchemeGroupVersion.WithResource("pots"), corev1.AddToScheme)
		controllers, made := podController(func() { ran = true })
		return controllers, errors.Join(err, made)
	}}
	file := answers(t, func(authorizationv1.ResourceAttributes) bool { return true })
	var said bytes.Buffer
	g.Expect(p.Main([]string{"--kubeconfig=" + file, "--listen-addr="}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("checking that the server has pots"))
	g.Expect(ran).To(BeFalse())
}

func inRanges(lease leader.Lease, member leader.Options) (reconcile.Shards, error) {
	return ranges.New(lease, &shard.Options{Member: member})
}

func TestEveryClusterIsFenced(t *testing.T) {
	g := NewWithT(t)
	file := answers(t, func(authorizationv1.ResourceAttributes) bool { return true })
	for _, p := range []operator.Program{
		{Replicas: operator.LeaderElected}, {Replicas: operator.Sharded}, {Replicas: operator.Sharded, Shards: inRanges},
	} {
		replicas, shards := p.Replicas, p.Shards
		p = operator.Program{
			Name: "test", Replicas: replicas, Shards: shards, Clusters: []operator.Cluster{{Name: "other"}},
			Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
				g.Expect(env.Options().Leader != nil).To(Equal(replicas == operator.LeaderElected))
				g.Expect(env.Options().Shards != nil).To(Equal(replicas != operator.LeaderElected))
				divides := false
				if of, ok := env.Options().Shards.(interface{ Parts() slots.Handover }); ok {
					_, divides = of.Parts().(slots.Ranger)
				}
				g.Expect(divides).To(Equal(shards != nil), "the caches are of the replica's part")
				g.Expect(env.Options().Events).To(BeIdenticalTo(env.Events))
				for _, c := range []*cluster.Cluster{env.Cluster, env.Clusters["other"]} {
					_, err := c.Client().CoreV1().Pods("d").Create(env.Context, &corev1.Pod{}, metav1.CreateOptions{})
					g.Expect(err).To(MatchError(leader.ErrFenced))
				}
				return nil, errors.New("seen")
			},
		}
		var said bytes.Buffer
		g.Expect(p.Main([]string{"--kubeconfig=" + file, "--other-kubeconfig=" + file, "--leader-elect", "--leader-elect-identity=me", "--listen-addr="}, &said)).To(Equal(1))
		g.Expect(said.String()).To(ContainSubstring("test: seen"))
		said.Reset()
		g.Expect(p.Main([]string{"--kubeconfig=" + file}, &said)).To(Equal(2))
		g.Expect(said.String()).To(ContainSubstring("--other-kubeconfig is empty: name the kubeconfig of cluster other"))
	}
}

// child is set in the environment of a process that plays a program.
const child = "OPERATOR_TEST_CHILD"

func TestMain(m *testing.M) {
	if file := os.Getenv(child); file != "" {
		code := operator.Program{Name: "child", Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			_, _ = io.WriteString(os.Stdout, "ready\n")
			<-env.Context.Done()
			_, _ = io.WriteString(os.Stdout, "draining\n")
			if os.Getenv(child+"_DRAINS") != "" {
				return podController(func() {})
			}
			select {}
		}}.Main([]string{"--kubeconfig=" + file, "--listen-addr="}, os.Stderr)
		os.Exit(code) //nolint:forbidigo // this is its main
	}
	metrics.Requests() // client-go's own variables, which a server sets while another goroutine may use a client
	m.Run()
}

func TestASecondSignalEndsTheProcess(t *testing.T) {
	for _, drains := range []string{"", "yes"} {
		for _, sign := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
			if signal.Ignored(sign) { // as a shell does with SIGINT for a command in the background; a child inherits it
				continue
			}
			g := NewWithT(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, os.Args[0])
			c.Env = append(os.Environ(), child+"="+kubeconfigOf(t, "http://127.0.0.1:1"), child+"_DRAINS="+drains)
			out, err := c.StdoutPipe()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.Start()).To(Succeed())
			line := make([]byte, len("ready\n"))
			_, err = io.ReadFull(out, line)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.Process.Signal(sign)).To(Succeed())
			line = make([]byte, len("draining\n"))
			_, err = io.ReadFull(out, line)
			g.Expect(err).NotTo(HaveOccurred(), "the first signal drains")
			if drains == "" {
				again := make(chan struct{})
				go func() { // until the process listens to signals no more
					defer close(again)
					for c.Process.Signal(sign) == nil && ctx.Err() == nil {
						<-time.After(50 * time.Millisecond)
					}
				}()
				defer func() { <-again }()
			}
			err = c.Wait()
			if drains != "" {
				g.Expect(err).NotTo(HaveOccurred(), "exit code 0 after a drain")
				continue
			}
			var ended *exec.ExitError
			g.Expect(errors.As(err, &ended)).To(BeTrue())
			g.Expect(ended.Sys().(syscall.WaitStatus).Signal()).To(Equal(sign)) //nolint:forcetypeassert // on Unix
		}
	}
}

func TestProbesAnswerWhileItDrains(t *testing.T) {
	g := NewWithT(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	address := l.Addr().String()
	g.Expect(l.Close()).To(Succeed())
	begun, release := make(chan struct{}), make(chan struct{})
	controllers, err := podController(func() {
		close(begun)
		<-release
	})
	g.Expect(err).NotTo(HaveOccurred())
	reached, err := cluster.New(&rest.Config{Host: "http://127.0.0.1:1"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&operator.Server{Address: address, Cluster: reached}).Run(ctx, controllers...) }()
	<-begun
	stop()
	live := func() (int, error) {
		answer, err := http.Get("http://" + address + "/livez") //nolint:noctx // a probe of this process
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	g.Eventually(live, patience).Should(Equal(http.StatusOK))
	g.Expect(ended).NotTo(Receive())
	close(release)
	g.Expect(<-ended).To(Succeed())
	_, err = live()
	g.Expect(err).To(HaveOccurred(), "served no longer")
}

func TestTheVersionNamesTheCommit(t *testing.T) {
	g := NewWithT(t)
	var said bytes.Buffer
	p := operator.Program{Name: "test", Clusters: []operator.Cluster{{Name: "other"}}, Setup: begins}
	g.Expect(p.Main([]string{"--version"}, &said)).To(Equal(0))
	g.Expect(said.String()).To(MatchRegexp(`^test .+ \(commit .+\) go1\.`))
	g.Expect(said.String()).To(Equal("test " + operator.Version() + "\n"))
}
