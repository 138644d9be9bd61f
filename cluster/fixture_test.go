package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile"
)

type (
	request = reconcile.Request[*corev1.ConfigMap]
	result  = reconcile.Result
)

// late is the delay of a fixture's caches after they have synced. It is shorter
// than the deadline of a held key.
const late = 5 * time.Second

// fixture is a simulated server with the ConfigMap d/a, whose key a controller
// reconciles, and caches that are late.
type fixture struct {
	*WithT
	t      *testing.T
	server *apisim.Server
	admin  kubernetes.Interface

	namespace string // of the objects

	config    *rest.Config // of the clients that the reconciler writes with
	generated kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface

	mu   sync.Mutex
	runs []string
}

// inFixture calls f in virtual time. The reconciler's clients are plain, or
// clients of package cluster around the transport that wrap returns.
func inFixture(t *testing.T, plain bool, wrap func(http.RoundTripper) http.RoundTripper, f func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{
			{Group: "example.com", Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true},
		}})
		g.Expect(err).NotTo(HaveOccurred())
		config := server.Config("controller")
		if wrap != nil {
			config.Wrap(wrap)
		}
		if !plain {
			c, err := cluster.New(config, nil)
			g.Expect(err).NotTo(HaveOccurred())
			config = c.Config()
		}
		x := &fixture{WithT: g, t: t, server: server, namespace: "d", config: config}
		x.admin, err = kubernetes.NewForConfig(server.Admin())
		g.Expect(err).NotTo(HaveOccurred())
		x.generated, err = kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		x.dynamic, err = dynamic.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		x.metadata, err = metadata.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = x.admin.CoreV1().ConfigMaps("d").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		f(x)
	})
}

func (x *fixture) maps() *informer.Informer[*corev1.ConfigMap] {
	return informer.For(x.generated.CoreV1().ConfigMaps("d"), nil)
}

// secrets returns a cache that is late.
func (x *fixture) secrets(o *informer.Options) *informer.Informer[*corev1.Secret] {
	return informer.For(lateSecrets{x.generated.CoreV1().Secrets(x.namespace)}, o)
}

// run runs a controller for a minute. It reconciles d/a a second after each
// reconcile, or when the caches have seen the writes of that reconcile.
func (x *fixture) run(o *reconcile.Options, f func(ctx context.Context) error) {
	x.t.Helper()
	c, err := reconcile.New("test", x.maps(), reconcile.Func[*corev1.ConfigMap](
		func(ctx context.Context, _ request) (result, error) { return reconcile.After(time.Second), f(ctx) }), o)
	x.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithTimeout(x.t.Context(), time.Minute)
	defer stop()
	x.Expect(c.Run(ctx)).To(Succeed())
	x.Expect(c.Stats().Panics).To(BeZero(), "they are retried, and may pass unnoticed")
	x.Expect(c.Stats().Overdue).To(BeZero(), "keys are released when the cache has seen the write, not at the deadline")
}

func (x *fixture) note(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs = append(x.runs, fmt.Sprintf(format, args...))
}

func (x *fixture) createSecret(name string, labels map[string]string) *corev1.Secret {
	x.t.Helper()
	s, err := x.admin.CoreV1().Secrets(x.namespace).Create(x.t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	return s
}

// ofSecrets returns a trigger that enqueues no key.
func ofSecrets(in *informer.Informer[*corev1.Secret]) []reconcile.Trigger {
	return []reconcile.Trigger{reconcile.Mapped(in, func(context.Context, *corev1.Secret, *corev1.Secret) ([]reconcile.Key, error) {
		return nil, nil
	})}
}

// lateSecrets is a client whose watch delivers each event late, after the first
// list.
type lateSecrets struct{ typedcorev1.SecretInterface }

func (l lateSecrets) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	inner, err := l.SecretInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return delayed(inner), nil
}

// delayed delays each event by late, in parallel, after a bookmark has ended
// the first list.
func delayed(inner watch.Interface) watch.Interface {
	type due struct {
		watch.Event
		at time.Time
	}
	arrived := make(chan due, 1000)
	events := make(chan watch.Event)
	outer := watch.NewProxyWatcher(events)
	go func() {
		defer close(arrived)
		by := time.Duration(0)
		for e := range inner.ResultChan() {
			arrived <- due{e, time.Now().Add(by)}
			if e.Type == watch.Bookmark {
				by = late
			}
		}
	}()
	go func() {
		defer close(events)
		defer inner.Stop()
		for e := range arrived {
			select {
			case <-time.After(max(time.Until(e.at), 1)):
			case <-outer.StopChan():
				return
			}
			select {
			case events <- e.Event:
			case <-outer.StopChan():
				return
			}
		}
	}()
	return outer
}

// latePods is lateSecrets for Pods.
type latePods struct{ typedcorev1.PodInterface }

func (l latePods) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	inner, err := l.PodInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return delayed(inner), nil
}
