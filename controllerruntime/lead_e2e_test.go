//go:build e2e

package controllerruntime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat/homeostat/controllerruntime"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/leader"
)

// A program moves from controller-runtime's election to ours by a rolling
// update, and then its leader loses the Lease with a write in flight.
func TestE2EManagersLead(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	server, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	namespace, err := server.Namespace(ctx, "lead")
	g.Expect(err).NotTo(HaveOccurred())
	p := newPaper(ctx, g, server.Config(), namespace)
	between, cut := newWire(t, g, server.Config())

	old := p.manager(g, "old", server.Config(), ctrl.NewManager)
	p.awaits(g, "old")
	a := p.manager(g, "a", between, controllerruntime.NewManager)
	old.stop()
	g.Expect(<-old.done).To(Succeed())
	p.awaits(g, "a")
	b := p.manager(g, "b", server.Config(), controllerruntime.NewManager)

	cut.hold()
	p.awaits(g, "b")
	g.Eventually(a.refused, patience).Should(Receive(MatchError(ContainSubstring("no answer within the trust window"))),
		"the write that was in flight")
	cut.open()
	g.Expect(<-a.done).To(MatchError(leader.ErrFenced))
	b.stop()
	g.Expect(<-b.done).To(Succeed())
	g.Expect(p.reigns(ctx, g)).To(Equal([]string{"old", "a", "b", "end"}))
}

// paper is a ConfigMap on which leaders write their names, with its history.
type paper struct {
	namespace string
	admin     kubernetes.Interface

	mu      sync.Mutex // guards writers
	writers []string   // without repetitions
}

func newPaper(ctx context.Context, g *WithT, config *rest.Config, namespace string) *paper {
	p := &paper{namespace: namespace, admin: kubernetes.NewForConfigOrDie(config)}
	maps := p.admin.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "paper"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=paper", ResourceVersion: made.ResourceVersion})
	g.Expect(err).NotTo(HaveOccurred())
	go func() {
		for event := range w.ResultChan() {
			if m, ok := event.Object.(*corev1.ConfigMap); ok && m.Data["writer"] != p.last() {
				p.mu.Lock()
				p.writers = append(p.writers, m.Data["writer"])
				p.mu.Unlock()
			}
		}
	}()
	return p
}

func (p *paper) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.writers) == 0 {
		return ""
	}
	return p.writers[len(p.writers)-1]
}

func (p *paper) awaits(g *WithT, writer string) { g.Eventually(p.last, patience).Should(Equal(writer)) }

// reigns returns the history. What is written now comes after all of it.
func (p *paper) reigns(ctx context.Context, g *WithT) []string {
	_, err := p.admin.CoreV1().ConfigMaps(p.namespace).Patch(ctx, "paper", types.MergePatchType,
		[]byte(`{"data":{"writer":"end"}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	p.awaits(g, "end")
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writers
}

// deaf is a manager that writes its name while it leads, and does not notice
// the end of its leadership.
type deaf struct {
	name    string
	stop    context.CancelFunc
	done    chan error
	refused chan error // the first error of a fence
}

func (p *paper) manager(
	g *WithT, name string, config *rest.Config, newManager func(*rest.Config, manager.Options) (manager.Manager, error),
) *deaf {
	duration := func(d time.Duration) *time.Duration { return &d }
	mgr, err := newManager(config, manager.Options{
		NewCache: controllerruntime.NewCache(nil), Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "lease", LeaderElectionNamespace: p.namespace,
		LeaseDuration: duration(10 * time.Second), RenewDeadline: duration(6 * time.Second),
		RetryPeriod: duration(time.Second), LeaderElectionReleaseOnCancel: true,
	})
	g.Expect(err).NotTo(HaveOccurred())
	w := &deaf{name: name, done: make(chan error, 1), refused: make(chan error, 1)}
	g.Expect(mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for n := 0; ctx.Err() == nil || n < 100; n++ { // a few more when it does not lead any longer
			if ctx.Err() == nil {
				n = 0
			}
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "paper"}}
			text := fmt.Appendf(nil, `{"data":{"writer":%q,"at":%q}}`, name, time.Now())
			err := mgr.GetClient().Patch(context.WithoutCancel(ctx), m, client.RawPatch(types.MergePatchType, text))
			if errors.Is(err, leader.ErrFenced) {
				select {
				case w.refused <- err:
				default:
				}
			}
			<-time.After(5 * time.Millisecond)
		}
		return nil
	}))).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() { w.done <- mgr.Start(ctx) }()
	return w
}

// wire is a proxy that holds requests until they are let through.
type wire struct {
	next http.Handler

	mu   sync.Mutex    // guards gate
	gate chan struct{} // nil while requests pass
}

func newWire(t *testing.T, g *WithT, config *rest.Config) (through *rest.Config, _ *wire) {
	t.Helper()
	target, err := url.Parse(config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.FlushInterval = -1
	reverse.Transport, err = rest.TransportFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	reverse.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	c := &wire{next: reverse}
	s := httptest.NewServer(c)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return &rest.Config{Host: s.URL, QPS: -1}, c
}

func (c *wire) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate = make(chan struct{})
}

func (c *wire) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.gate)
	c.gate = nil
}

// ServeHTTP implements [http.Handler].
func (c *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	gate := c.gate
	c.mu.Unlock()
	if gate != nil {
		body, _ := io.ReadAll(r.Body) // a server hears that its client has gone when it has read the request
		r.Body = io.NopCloser(bytes.NewReader(body))
		<-gate
	}
	c.next.ServeHTTP(w, r)
}
