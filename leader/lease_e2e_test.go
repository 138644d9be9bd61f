//go:build e2e

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/leader"
)

// lease reads the Lease of a paper's namespace.
func (p *paper) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	l, err := p.client.CoordinationV1().Leases(p.namespace).Get(t.Context(), "test", metav1.GetOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return l
}

// elector returns an elector in the paper's namespace, and a client that it
// fences. Its writes go by way of server.
func (p *paper) elector(t *testing.T, config *rest.Config, identity, server string) (*leader.Elector, kubernetes.Interface) {
	t.Helper()
	g := NewWithT(t)
	e, err := leader.New(leader.Lease{
		Client: p.client.CoordinationV1(), Namespace: p.namespace, Name: "test", Identity: identity,
	}, &leader.Options{LeaseDuration: replicaLease})
	g.Expect(err).NotTo(HaveOccurred())
	if server != "" {
		config = &rest.Config{Host: server, QPS: -1}
	}
	client, err := kubernetes.NewForConfig(e.Fence(config))
	g.Expect(err).NotTo(HaveOccurred())
	return e, client
}

func TestE2ELease(t *testing.T) {
	c := startCluster(t)
	t.Run("a Lease that only others touch expires", func(t *testing.T) { touchedLease(t, c) })
	t.Run("a stop that cut off a write keeps the Lease", func(t *testing.T) { cutOff(t, c, true) })
	t.Run("a stop after which nothing is under way releases it", func(t *testing.T) { cutOff(t, c, false) })
	t.Run("a path is judged by what it names", func(t *testing.T) { paths(t, c) })
	t.Run("a connection that stops working does not end a leadership", func(t *testing.T) { blackHole(t, c) })
	t.Run("exec is refused", func(t *testing.T) { execs(t, c) })
}

// blackHole lets the connections of a lone leader stop working, twice, without
// closing them.
func blackHole(t *testing.T, c *e2e.Cluster) {
	g := NewWithT(t)
	p := newPaper(t, c.Config())
	n := &network{reach: (&net.Dialer{}).DialContext}
	config := c.Config()
	config.Dial = n.dial
	leases, err := leader.Client(config)
	g.Expect(err).NotTo(HaveOccurred())
	e, err := leader.New(leader.Lease{Client: leases, Namespace: p.namespace, Name: "test", Identity: "a"},
		&leader.Options{LeaseDuration: time.Minute, RenewDeadline: 30 * time.Second}) // of a busy machine
	g.Expect(err).NotTo(HaveOccurred())
	terms := make(chan context.Context, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := background(func() error {
		return e.Run(ctx, func(ctx context.Context) error {
			terms <- ctx
			<-ctx.Done()
			return nil
		})
	})
	term := <-terms
	for range 2 {
		n.breaks(false)
		before := p.lease(t).Spec.RenewTime
		g.Eventually(func() time.Time { return p.lease(t).Spec.RenewTime.Time }, time.Minute).Should(BeTemporally(">", before.Time))
		g.Expect(term.Err()).NotTo(HaveOccurred())
	}
	stop()
	g.Expect(ended()).To(Succeed())
	g.Expect(p.lease(t).Spec.HolderIdentity).To(BeNil())
}

// touchedLease kills the leader while a tool stamps the Lease twice a second.
func touchedLease(t *testing.T, c *e2e.Cluster) {
	g := NewWithT(t)
	p := newPaper(t, c.Config())
	a := startReplica(t, "a", c.Kubeconfig(), p.namespace)
	p.awaits(t, "a")
	g.Expect(p.lease(t).Spec.LeaseTransitions).To(HaveValue(BeZero()), "as client-go counts")
	b := startReplica(t, "b", c.Kubeconfig(), p.namespace)
	ctx, stop := context.WithCancel(t.Context())
	var touching sync.WaitGroup
	touching.Go(func() {
		pace := time.NewTicker(replicaLease / 6)
		defer pace.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			_, err := p.client.CoordinationV1().Leases(p.namespace).Patch(ctx, "test", types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, n), metav1.PatchOptions{})
			if err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
				t.Errorf("touching the Lease: %v", err)
			}
			<-pace.C
		}
	})
	g.Expect(a.cmd.Process.Kill()).To(Succeed())
	b.says(t, "leading")
	p.awaits(t, "b")
	stop()
	touching.Wait()
	g.Expect(p.lease(t).Spec.LeaseTransitions).To(HaveValue(BeEquivalentTo(1)))
}

// cutOff stops a leader whose write is, or was, held up between it and the API
// server.
func cutOff(t *testing.T, c *e2e.Cluster, held bool) {
	g := NewWithT(t)
	p := newPaper(t, c.Config())
	arrived, open := make(chan struct{}, 1), make(chan struct{})
	e, client := p.elector(t, c.Config(), "a", slowProxy(t, c.Config(), arrived, open))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	answered := make(chan struct{})
	wait := background(func() error {
		return e.Run(ctx, func(ctx context.Context) error {
			_, err := client.CoreV1().ConfigMaps(p.namespace).Patch(ctx, "paper", types.MergePatchType,
				[]byte(`{"data":{"writer":"a"}}`), metav1.PatchOptions{})
			close(answered)
			<-ctx.Done()
			return err
		})
	})
	<-arrived
	if !held {
		close(open)
		<-answered
	}
	stop()
	g.Expect(wait()).To(Succeed())
	if !held {
		g.Expect(p.lease(t).Spec.HolderIdentity).To(BeNil())
		return
	}
	g.Expect(p.lease(t).Spec.HolderIdentity).To(HaveValue(HavePrefix("a_")))
	close(open) // the network delivers it after all
	p.awaits(t, "a")
	b := startReplica(t, "b", c.Kubeconfig(), p.namespace)
	b.says(t, "leading")
	p.awaits(t, "b")
	g.Expect(p.reigns(t)).To(Equal([]string{"a", "b"}))
}

// slowProxy delivers a request when open is closed, although its client has
// given it up.
func slowProxy(t *testing.T, config *rest.Config, arrived chan<- struct{}, open <-chan struct{}) string {
	t.Helper()
	g := NewWithT(t)
	target, err := url.Parse(config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.Transport, err = rest.TransportFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		late := r.Clone(context.WithoutCancel(r.Context()))
		late.Body = io.NopCloser(strings.NewReader(string(body)))
		arrived <- struct{}{}
		<-open
		answer := httptest.NewRecorder() // w would end the request with its client
		reverse.ServeHTTP(answer, late)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// paths writes an object whose name and namespace are words that the fence
// knows.
func paths(t *testing.T, c *e2e.Cluster) {
	g := NewWithT(t)
	p := newPaper(t, c.Config())
	_, err := p.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "services"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	e, client := p.elector(t, c.Config(), "a", "")
	objects := client.CoreV1().ConfigMaps("services")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "proxy"}}
	g.Expect(e.Run(t.Context(), func(ctx context.Context) error {
		created, err := objects.Create(ctx, cm, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		created.Data = map[string]string{"a": "b"}
		_, err = objects.Update(ctx, created, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
	got, err := objects.Get(t.Context(), "proxy", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "it is a read, also while no replica leads")
	g.Expect(got.Data).To(HaveKey("a"))
	g.Expect(objects.Delete(t.Context(), "proxy", metav1.DeleteOptions{})).To(MatchError(leader.ErrFenced))
	_, err = client.CoreV1().Services("default").ProxyGet("", "kubernetes", "", "", nil).DoRaw(t.Context())
	g.Expect(err).To(MatchError(leader.ErrFenced))
	_, err = client.CoreV1().Pods("default").GetLogs("none", &corev1.PodLogOptions{Follow: true}).DoRaw(t.Context())
	g.Expect(err).To(MatchError(leader.ErrFenced))
	_, err = client.CoreV1().Pods("default").GetLogs("none", &corev1.PodLogOptions{}).DoRaw(t.Context())
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

// execs asks for an exec in a pod that does not exist. The server says so only
// if the fence lets the request pass.
func execs(t *testing.T, c *e2e.Cluster) {
	g := NewWithT(t)
	p := newPaper(t, c.Config())
	e, fenced := p.elector(t, c.Config(), "a", "")
	exec := func(ctx context.Context, client kubernetes.Interface) error {
		return client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("none").SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Command: []string{"true"}, Stdout: true}, scheme.ParameterCodec).Do(ctx).Error()
	}
	g.Expect(e.Run(t.Context(), func(ctx context.Context) error {
		g.Expect(exec(ctx, fenced)).To(MatchError(ContainSubstring("switches protocols")))
		err := exec(ctx, p.client)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		return nil
	})).To(Succeed())
}
