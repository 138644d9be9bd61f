package operator_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// patience is for a machine with more to do.
const patience = time.Minute

// freeAddress returns an address on which no server listens.
func freeAddress(g *WithT) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer l.Close()
	return l.Addr().String()
}

// answer returns status and body of a path.
func answer(address, path string) func() (string, error) {
	return func() (string, error) {
		res, err := http.Get("http://" + address + path) //nolint:noctx // a probe of this process
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res.Status + " " + string(body), err
	}
}

func TestProbesAnswerFromTheStart(t *testing.T) {
	g := NewWithT(t)
	defer http.DefaultClient.CloseIdleConnections()
	var up atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	}))
	defer server.Close()
	release := make(chan struct{})
	p := operator.Program{Name: "test", Needs: []string{"get pods"}, Setup: func(operator.Env) ([]*reconcile.Controller, error) {
		<-release
		return nil, errors.New("it has begun")
	}}
	address := freeAddress(g)
	code := make(chan int, 1)
	args := []string{"--kubeconfig=" + kubeconfigOf(t, server.URL), "--listen-addr=" + address}
	go func() { code <- p.Main(args, io.Discard) }()

	g.Eventually(answer(address, "/readyz"), patience).Should(And(
		HavePrefix("503 "), ContainSubstring("starting: the API server at "+server.URL+" does not answer")))
	g.Expect(answer(address, "/livez")()).To(HavePrefix("200 "))
	up.Store(true)
	g.Eventually(answer(address, "/readyz"), patience).Should(And(
		HavePrefix("503 "), ContainSubstring("starting: Setup has not returned")))
	g.Expect(answer(address, "/livez")()).To(HavePrefix("200 "))
	g.Expect(answer(address, "/metrics")()).To(And(HavePrefix("200 "), ContainSubstring("go_goroutines")))
	close(release)
	g.Expect(<-code).To(Equal(1))
}

func TestProbesShowTheControllersOnceTheyAreMade(t *testing.T) {
	g := NewWithT(t)
	defer http.DefaultClient.CloseIdleConnections()
	address := freeAddress(g)
	ctx, stop := context.WithCancel(t.Context())
	ended, release := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- (&operator.Server{Address: address, Cluster: unreachable(g)}).RunSetup(ctx,
			func(context.Context) ([]*reconcile.Controller, error) {
				<-release
				return podController(func() {})
			})
	}()
	g.Eventually(answer(address, "/readyz"), patience).Should(HavePrefix("503 "))
	close(release)
	g.Eventually(answer(address, "/readyz"), patience).Should(HavePrefix("200 "))
	g.Expect(answer(address, "/metrics")()).To(ContainSubstring(`controller="test"`))
	stop()
	g.Expect(<-ended).To(Succeed())
}

func TestAnAddressInUseIsReportedBeforeSetup(t *testing.T) {
	g := NewWithT(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer taken.Close()
	p := operator.Program{Name: "test", Setup: begins}
	var said bytes.Buffer
	g.Expect(p.Main([]string{"--kubeconfig=" + kubeconfigOf(t, "http://127.0.0.1:1"), "--listen-addr=" + taken.Addr().String()}, &said)).
		To(Equal(1))
	g.Expect(said.String()).To(And(ContainSubstring("in use: choose another Address (--listen-addr), or none"), Not(ContainSubstring("it has begun"))))
}

func TestMetricsMayNeedAToken(t *testing.T) {
	for asked, want := range map[bool]string{false: "200 ", true: "401 "} {
		g := NewWithT(t)
		address := freeAddress(g)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			controllers, _ := podController(func() {})
			ended <- (&operator.Server{Address: address, Cluster: unreachable(g), MetricsAuth: asked}).Run(ctx, controllers...)
		}()
		g.Eventually(answer(address, "/readyz"), patience).Should(HavePrefix("200 "), "a start that is cut off is an error")
		g.Expect(answer(address, "/metrics")()).To(HavePrefix(want))
		g.Expect(answer(address, "/debug/homeostat")()).To(HavePrefix("401 "))
		stop()
		g.Expect(<-ended).To(Succeed())
		http.DefaultClient.CloseIdleConnections()
	}
}

func TestAServerNeedsItsCluster(t *testing.T) {
	g := NewWithT(t)
	err := (&operator.Server{Address: "127.0.0.1:0"}).Run(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("Server.Cluster is nil: must be the cluster that decides")))
}

// unchecked are collectors that do not describe their metrics.
type unchecked []prometheus.Metric

func (unchecked) Describe(chan<- *prometheus.Desc) {}

func (u unchecked) Collect(out chan<- prometheus.Metric) {
	for _, m := range u {
		out <- m
	}
}

// Otherwise each scrape would be a 500, with nothing at the start.
func TestACollectorThatClashesIsNamedAtTheStart(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for name, collector := range map[string]prometheus.Collector{
		`"workqueue_depth"|workqueue_depth`: unchecked{prometheus.MustNewConstMetric(
			prometheus.NewDesc("workqueue_depth", "Ours.", nil, nil), prometheus.GaugeValue, 1)},
		"go_goroutines": unchecked{prometheus.MustNewConstMetric(
			prometheus.NewDesc("go_goroutines", "Ours.", nil, nil), prometheus.CounterValue, 1)},
	} {
		var said bytes.Buffer
		p := operator.Program{Name: "test", Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			if err := env.Metrics.Register(collector); err != nil {
				return nil, err
			}
			c, err := idleOn(env.Cluster)
			return []*reconcile.Controller{c}, err
		}}
		code := p.Main([]string{
			"--kubeconfig=" + kubeconfigOf(t, server.URL), "--listen-addr=" + freeAddress(g),
			"--startup-timeout=1s",
		}, &said)
		g.Expect(code).To(Equal(1))
		g.Expect(said.String()).To(And(MatchRegexp(name), ContainSubstring("names that are not in docs/operating.md")))
	}
}

// A collector that cannot collect yet may do so later.
func TestACollectorThatFailsByItselfDoesNotEndTheProgram(t *testing.T) {
	g := NewWithT(t)
	defer http.DefaultClient.CloseIdleConnections()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(unchecked{prometheus.NewInvalidMetric(
		prometheus.NewDesc("own_total", "Own.", nil, nil), errors.New("not yet"))})
	c, err := cluster.New(&rest.Config{Host: server.URL}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	idle, err := idleOn(c)
	g.Expect(err).NotTo(HaveOccurred())
	s := &operator.Server{Address: freeAddress(g), Cluster: c, Metrics: registry}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, idle) }()
	g.Eventually(answer(s.Address, "/metrics"), patience).Should(And(HavePrefix("200 "),
		ContainSubstring("homeostat_failing_keys"), Not(ContainSubstring("own_total"))), "it costs only itself")
	cancel()
	g.Expect(<-ended).To(MatchError(ContainSubstring("waiting for the cache of pods")))
}

// idleOn is a controller of Pods that does nothing.
func idleOn(c *cluster.Cluster) (*reconcile.Controller, error) {
	return reconcile.New("test", informer.For(c.Client().CoreV1().Pods(""), nil), reconcile.Func[*corev1.Pod](
		func(context.Context, reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}), nil)
}
