package reconcile_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

type (
	configMap = corev1.ConfigMap
	request   = reconcile.Request[*configMap]
	reconcFn  = func(ctx context.Context, r request) (reconcile.Result, error)
)

var nothing = reconcile.Result{}

func configMapNamed(name string) *configMap {
	return &configMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
}

func key(name string) reconcile.Key { return reconcile.Key{Namespace: "d", Name: name} }

// fixture is a fake clientset, what was logged, and what ran, in a bubble of
// virtual time.
type fixture struct {
	*WithT
	t      *testing.T
	client *fake.Clientset
	in     *informer.Informer[*configMap]

	controllers []*reconcile.Controller
	panics      bool // are part of the test

	mu   sync.Mutex
	log  []string
	runs []string
}

func inFixture(t *testing.T, f func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// fake.NewClientset also records managedFields, which is slow, and no
		// test reads them.
		w := &fixture{WithT: NewWithT(t), t: t, client: fake.NewSimpleClientset()}
		w.in = informer.For(w.client.CoreV1().ConfigMaps("d"), nil)
		f(w)
		for _, c := range w.controllers {
			w.Expect(c.Leftovers()).To(BeEmpty())
			panicked := c.Stats().Panics > 0
			w.Expect(panicked).To(Equal(w.panics), "panics are retried, and may pass unnoticed")
		}
	})
}

func (w *fixture) create(names ...string) {
	w.t.Helper()
	for _, name := range names {
		_, err := w.client.CoreV1().ConfigMaps("d").Create(w.t.Context(), configMapNamed(name), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
	}
}

func (w *fixture) update(name string, edit func(*configMap)) {
	w.t.Helper()
	object := configMapNamed(name)
	edit(object)
	_, err := w.client.CoreV1().ConfigMaps("d").Update(w.t.Context(), object, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *fixture) delete(name string) {
	w.t.Helper()
	w.Expect(w.client.CoreV1().ConfigMaps("d").Delete(w.t.Context(), name, metav1.DeleteOptions{})).To(Succeed())
}

// ran records a reconcile.
func (w *fixture) ran(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, what)
}

// reconciled waits until only the passing of time could lead to another
// reconcile, and returns what ran since the last call.
func (w *fixture) reconciled() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	runs := w.runs
	w.runs = nil
	return runs
}

func (w *fixture) logged() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log
}

func (w *fixture) context() context.Context {
	return logr.NewContext(w.t.Context(), funcr.New(func(prefix, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.log = append(w.log, prefix+" "+args)
	}, funcr.Options{Verbosity: 1}))
}

// start runs a controller until stop is called. stop returns the result of Run.
func (w *fixture) start(o *reconcile.Options, f reconcFn) (stop func() error) {
	w.t.Helper()
	return w.startRun(w.made(o, f).Run)
}

func (w *fixture) startRun(run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(w.context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// pass waits for d.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func reconcileLogger(ctx context.Context) logr.Logger { return logr.FromContextOrDiscard(ctx) }
