//go:build e2e

package leader_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// paper is what the replicas write on; its history is in the order in which
// the API server committed.
type paper struct {
	client    kubernetes.Interface
	namespace string

	mu      sync.Mutex
	writers []string
	more    chan struct{}
}

func newPaper(t *testing.T, config *rest.Config) *paper {
	t.Helper()
	g := NewWithT(t)
	client, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	ctx := t.Context()
	ns, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "leader-"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	p := &paper{client: client, namespace: ns.Name, more: make(chan struct{}, 1)}
	maps := client.CoreV1().ConfigMaps(ns.Name)
	cm, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "paper"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	w, err := maps.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=paper", ResourceVersion: cm.ResourceVersion,
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(w.Stop)
	go func() {
		for event := range w.ResultChan() {
			if cm, ok := event.Object.(*corev1.ConfigMap); ok {
				p.add(cm.Data["writer"])
			}
		}
	}()
	return p
}

func (p *paper) add(writer string) {
	p.mu.Lock()
	p.writers = append(p.writers, writer)
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// awaits blocks until the last writer is this one.
func (p *paper) awaits(t *testing.T, writer string) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		p.mu.Lock()
		n := len(p.writers)
		seen := n > 0 && p.writers[n-1] == writer
		p.mu.Unlock()
		if seen {
			return
		}
		select {
		case <-p.more:
		case <-patience:
			t.Fatalf("%s wrote nothing within a minute", writer)
		}
	}
}

// reigns is the history without repetitions.
func (p *paper) reigns(t *testing.T) []string {
	t.Helper()
	// A write that is sent now follows all earlier writes in the history.
	_, err := p.client.CoreV1().ConfigMaps(p.namespace).Patch(t.Context(), "paper", "application/merge-patch+json",
		[]byte(`{"data":{"writer":"end"}}`), metav1.PatchOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	patience := time.After(time.Minute)
	for {
		if out, ended := p.merged(); ended {
			return out
		}
		select {
		case <-p.more:
		case <-patience:
			t.Fatal("the end was not seen within a minute")
		}
	}
}

func (p *paper) merged() (out []string, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.writers {
		if w == "end" {
			return out, true
		}
		if len(out) == 0 || out[len(out)-1] != w {
			out = append(out, w)
		}
	}
	return out, false
}

func startCluster(t *testing.T) *e2e.Cluster {
	t.Helper()
	c, err := e2e.Start(t.Context(), nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(c.Stop()).To(Succeed()) })
	return c
}

func TestE2EFence(t *testing.T) {
	c := startCluster(t)
	t.Run("paused for longer than the lease, a leader writes nothing when it goes on", func(t *testing.T) {
		NewWithT(t).Expect(pausedLeader(t, c, 4)).To(Equal([]string{"a", "b", "a", "b", "a"}))
	})
	t.Run("without a fence it does write", func(t *testing.T) {
		NewWithT(t).Expect(len(pausedLeader(t, c, 1, unfencedVariable+"=1"))).To(BeNumerically(">", 2))
	})
	t.Run("requests held up on the way are not written after the next leader's", func(t *testing.T) {
		NewWithT(t).Expect(lateServer(t, c, holdRequests)).To(Equal([]string{"a", "b"}))
	})
	t.Run("without a fence they are", func(t *testing.T) {
		NewWithT(t).Expect(len(lateServer(t, c, holdRequests, unfencedVariable+"=1"))).To(BeNumerically(">", 2))
	})
	t.Run("a policy in the server refuses both, without a fence", func(t *testing.T) { fencedByServer(t, c) })
	t.Run("so it does what a member of shards writes late", func(t *testing.T) { shardsFencedByServer(t, c) })
	t.Run("answers that come late do not prolong a leadership", func(t *testing.T) {
		NewWithT(t).Expect(lateServer(t, c, holdAnswers)).To(Equal([]string{"a", "b"}))
	})
}

// pausedLeader pauses the leader until the other replica leads, and then
// resumes it, repeatedly.
func pausedLeader(t *testing.T, c *e2e.Cluster, rounds int, env ...string) []string {
	g := NewWithT(t)
	p := newPaper(t, c.Config())
	leading := startReplica(t, "a", c.Kubeconfig(), p.namespace, env...)
	p.awaits(t, "a")
	standby := startReplica(t, "b", c.Kubeconfig(), p.namespace, env...)
	for range rounds {
		g.Expect(leading.cmd.Process.Signal(syscall.SIGSTOP)).To(Succeed())
		standby.says(t, "leading")
		p.awaits(t, standby.name)
		g.Expect(leading.cmd.Process.Signal(syscall.SIGCONT)).To(Succeed())
		over := leading.says(t, "over")
		if len(env) == 0 {
			g.Expect(over).To(Equal("over: fenced, refused 100 of 100"))
		}
		leading, standby = standby, leading
	}
	return p.reigns(t)
}

type hold int

const (
	holdRequests hold = iota + 1
	holdAnswers
)

// proxy stands between a replica and the API server.
type proxy struct {
	next http.Handler

	mu   sync.Mutex
	hold hold
	open chan struct{}
}

func startProxy(t *testing.T, config *rest.Config) (*proxy, string) {
	t.Helper()
	g := NewWithT(t)
	target, err := url.Parse(config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.Transport, err = rest.TransportFor(config)
	reverse.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	g.Expect(err).NotTo(HaveOccurred())
	p := &proxy{next: reverse, open: make(chan struct{})}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return p, s.URL
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	hold, open := p.hold, p.open
	p.mu.Unlock()
	switch hold {
	case holdRequests:
		body, _ := io.ReadAll(r.Body) // a server hears that its client has gone when it has read the request
		r.Body = io.NopCloser(bytes.NewReader(body))
		<-open
		p.next.ServeHTTP(w, r)
	case holdAnswers:
		answer := httptest.NewRecorder()
		p.next.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		<-open
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	default:
		p.next.ServeHTTP(w, r)
	}
}

// lateServer puts the leader behind a proxy that stops in one direction until
// the other replica leads.
func lateServer(t *testing.T, c *e2e.Cluster, h hold, env ...string) []string {
	p := newPaper(t, c.Config())
	between, address := startProxy(t, c.Config())
	a := startReplica(t, "a", c.Kubeconfig(), p.namespace, append(env, serverVariable+"="+address)...)
	p.awaits(t, "a")
	b := startReplica(t, "b", c.Kubeconfig(), p.namespace)
	between.mu.Lock()
	between.hold = h
	between.mu.Unlock()
	b.says(t, "leading")
	p.awaits(t, "b")
	between.mu.Lock()
	between.hold = 0
	close(between.open)
	between.mu.Unlock()
	over := a.says(t, "over")
	if len(env) == 0 && !strings.HasPrefix(over, "over: fenced") {
		t.Errorf("want the leadership to end as fenced, it said %q", over)
	}
	return p.reigns(t)
}
