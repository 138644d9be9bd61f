package operator_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func everything(authorizationv1.ResourceAttributes) bool { return true }

// blackHole accepts connections and never answers. accepted is closed when it
// has the first one.
func blackHole(t *testing.T) (url string, accepted <-chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = l.Close() })
	first := make(chan struct{})
	go func() {
		for once := sync.OnceFunc(func() { close(first) }); ; once() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return "http://" + l.Addr().String(), first
}

// alive is a simulated API server with the Namespace n on an address, until it
// dies.
func alive(t *testing.T, address string) (die func()) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sim.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}})).To(Succeed())
	l, err := net.Listen("tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: sim.Handler()} //nolint:gosec // its clients are this process
	die = func() { _ = server.Close() }
	t.Cleanup(die)
	go func() { _ = server.Serve(l) }()
	return die
}

// namespaceController reports on ran that it reconciles a Namespace of c.
func namespaceController(name string, c *cluster.Cluster, o *reconcile.Options, ran chan<- string) (*reconcile.Controller, error) {
	return reconcile.New(name, informer.For(c.Client().CoreV1().Namespaces(), &informer.Options{
		BackoffBase: 10 * time.Millisecond, BackoffCap: 200 * time.Millisecond,
	}), reconcile.Func[*corev1.Namespace](
		func(_ context.Context, r reconcile.Request[*corev1.Namespace]) (reconcile.Result, error) {
			ran <- name + " " + r.Key.Name
			return reconcile.Result{}, nil
		}), o)
}

// running is a program that runs, and stops at the end of the test with the
// code 0.
type running struct {
	address string
	ran     chan string
}

// runs starts p, whose Setup gets the channel for what is reconciled.
func runs(t *testing.T, p operator.Program, setup func(operator.Env, chan<- string) ([]*reconcile.Controller, error), args ...string) *running {
	g := NewWithT(t)
	r := &running{address: freeAddress(g), ran: make(chan string, 100)}
	p.Name = "test"
	p.Setup = func(env operator.Env) ([]*reconcile.Controller, error) { return setup(env, r.ran) }
	ended := make(chan int, 1)
	var said bytes.Buffer
	go func() { ended <- p.Main(append(args, "--listen-addr="+r.address), &said) }()
	g.Eventually(answer(r.address, "/livez"), patience).Should(HavePrefix("200 "))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		g.Expect(terminate()).To(Succeed())
		var code int
		g.Eventually(ended, patience).Should(Receive(&code))
		g.Expect(code).To(BeZero(), said.String())
	})
	return r
}

func (r *running) readyz() (string, error) { return answer(r.address, "/readyz")() }

// homeAndEdge makes a controller for the first cluster, and an optional
// controller for each further cluster.
func homeAndEdge(env operator.Env, ran chan<- string) ([]*reconcile.Controller, error) {
	all, err := podController(func() { ran <- "home" })
	for name, c := range env.Clusters {
		o := env.Options()
		o.Optional = true
		edge, failed := namespaceController(name, c, o, ran)
		all, err = append(all, edge), errors.Join(err, failed)
	}
	return all, err
}

func TestADeadOptionalClusterStopsNoOther(t *testing.T) {
	g := NewWithT(t)
	closed := freeAddress(g)
	r := runs(t, operator.Program{
		Clusters: []operator.Cluster{{Name: "closed", Optional: true}},
		Needs:    []string{"get pods", "list,watch namespaces on closed"},
	}, homeAndEdge, "--kubeconfig="+answers(t, everything), "--closed-kubeconfig="+kubeconfigOf(t, "http://"+closed))
	g.Eventually(r.ran, patience).Should(Receive(Equal("home")))
	g.Eventually(r.readyz, patience).Should(And(HavePrefix("200 "),
		ContainSubstring("[!] cluster/closed: the API server at http://"+closed+" does not answer: "),
		ContainSubstring("[!] controller/closed: it waits for the cache of namespaces: "), HaveSuffix("\nok\n")))
	g.Expect(answer(r.address, "/metrics")()).To(ContainSubstring(`homeostat_problems{cause="no answer",check="cluster/closed"} 1`))

	alive(t, closed)
	g.Eventually(r.ran, patience).Should(Receive(Equal("closed n")), "its controller starts without a restart")
	g.Eventually(r.readyz, patience).Should(And(HavePrefix("200 "), Not(ContainSubstring("/closed: "))))
}

func TestAnOptionalClusterMayBeWithoutItsKubeconfig(t *testing.T) {
	g := NewWithT(t)
	file, address := filepath.Join(t.TempDir(), "later"), freeAddress(g)
	alive(t, address)
	r := runs(t, operator.Program{
		Clusters: []operator.Cluster{{Name: "edge", Optional: true}}, Needs: []string{"list,watch namespaces on edge"},
	}, homeAndEdge, "--kubeconfig="+answers(t, everything), "--edge-kubeconfig="+file)
	g.Eventually(r.ran, patience).Should(Receive(Equal("home")))
	g.Eventually(r.readyz, patience).Should(And(HavePrefix("200 "),
		MatchRegexp(`\[!\] cluster/edge: .*later: no such file or directory`)))
	write(g, file, strings.Replace(kubeconfig, "http://127.0.0.1:1", "http://"+address, 1))
	g.Eventually(r.ran, patience).Should(Receive(Equal("edge n")))
	g.Eventually(r.readyz, patience).ShouldNot(ContainSubstring("/edge: "))
}

func TestAControllerOfAnOptionalClusterIsOptional(t *testing.T) {
	g := NewWithT(t)
	p := operator.Program{
		Name: "test", Clusters: []operator.Cluster{{Name: "edge", Optional: true}},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			c, err := namespaceController("wrong", env.Clusters["edge"], env.Options(), nil)
			return []*reconcile.Controller{c}, err
		},
	}
	var said bytes.Buffer
	g.Expect(p.Main([]string{
		"--kubeconfig=" + kubeconfigOf(t, "http://127.0.0.1:1"), "--edge-kubeconfig=" + kubeconfigOf(t, "http://127.0.0.1:2"),
		"--listen-addr=",
	}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring(`operator.Program.Setup is set: must set reconcile.Options.Optional of ` +
		`controller "wrong", because it reads from cluster edge, which is optional`))
}

// Dead clusters that the program needs are asked at the same time: none waits
// until another is given up.
func TestClustersAreAskedSideBySide(t *testing.T) {
	g := NewWithT(t)
	one, first := blackHole(t)
	two, second := blackHole(t)
	ended := make(chan int, 1)
	p := operator.Program{
		Name: "test", Clusters: []operator.Cluster{{Name: "other"}}, Needs: []string{"get pods", "get pods on other"}, Setup: begins,
	}
	var said bytes.Buffer
	go func() {
		ended <- p.Main([]string{
			"--kubeconfig=" + kubeconfigOf(t, one), "--other-kubeconfig=" + kubeconfigOf(t, two), "--listen-addr=",
			"--startup-timeout=1h",
		}, &said)
	}()
	g.Eventually(first, patience).Should(BeClosed())
	g.Eventually(second, patience).Should(BeClosed())
	g.Expect(terminate()).To(Succeed())
	g.Eventually(ended, patience).Should(Receive(BeZero()), said.String)
}

// A kind that only optional controllers watch may be missing, or be served in
// another version or with another scope: it is not the wrong kind that ends a
// program.
func TestAKindThatOnlyOptionalControllersWatchMayBeMissing(t *testing.T) {
	g := NewWithT(t)
	watching := func(env operator.Env, names []string, resource schema.GroupVersionResource, o *reconcile.Options,
		clusterScoped bool,
	) (all []*reconcile.Controller, err error) {
		kind, err := cluster.NewKind[*corev1.Pod, *corev1.PodList](env.Cluster, resource, func(s *runtime.Scheme) error {
			s.AddKnownTypeWithName(resource.GroupVersion().WithKind("Pod"), &corev1.Pod{})
			s.AddKnownTypeWithName(resource.GroupVersion().WithKind("PodList"), &corev1.PodList{})
			return nil
		})
		if err != nil {
			return nil, err
		}
		if clusterScoped {
			kind.ClusterScoped()
		}
		in := informer.For(kind.In(""), nil)
		for n, name := range names {
			optional := *o
			optional.Optional = n > 0 || o.Optional
			c, err := reconcile.New(name, in, reconcile.Func[*corev1.Pod](
				func(context.Context, reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
					return reconcile.Result{}, nil
				}), &optional)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
		return all, nil
	}
	pots := corev1.SchemeGroupVersion.WithResource("pots")
	file := answers(t, everything)
	for _, names := range [][]string{{"potter"}, {"potter", "optional"}} { // the second shares the informer
		var said bytes.Buffer
		p := operator.Program{Name: "test", Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			return watching(env, names, pots, &reconcile.Options{}, false)
		}}
		g.Expect(p.Main([]string{"--kubeconfig=" + file, "--listen-addr="}, &said)).To(Equal(1))
		g.Expect(said.String()).To(ContainSubstring("checking that the server has pots"))
	}

	setup := func(env operator.Env, ran chan<- string) ([]*reconcile.Controller, error) {
		optional := &reconcile.Options{Optional: true}
		missing, err := watching(env, []string{"potter"}, pots, optional, false)
		version, err2 := watching(env, []string{"version"}, schema.GroupVersionResource{
			Group: "example.com", Version: "v2", Resource: "pods",
		}, optional, false)
		scope, err3 := watching(env, []string{"scope"}, corev1.SchemeGroupVersion.WithResource("pods"), optional, true)
		home, err4 := podController(func() { ran <- "home" })
		return slices.Concat(home, missing, version, scope), errors.Join(err, err2, err3, err4)
	}
	r := runs(t, operator.Program{}, setup, "--kubeconfig="+file) // last, since it runs until the test ends
	g.Eventually(r.ran, patience).Should(Receive(Equal("home")))
	g.Eventually(r.readyz, patience).Should(And(HavePrefix("200 "),
		ContainSubstring("[!] controller/potter: it waits for the cache of "),
		ContainSubstring("[!] controller/version: it waits for the cache of "),
		ContainSubstring("[!] controller/scope: it waits for the cache of ")))
}
