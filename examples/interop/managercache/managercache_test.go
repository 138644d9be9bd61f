package managercache_test

import (
	"context"
	"net/http"
	"path"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/examples/interop/managercache"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/apisim"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// newManager returns a manager of the simulated server, with or without the
// cache of package clientgo, and the number of its watches of ConfigMaps.
func newManager(g *WithT, sim *apisim.Server, o cache.Options) (manager.Manager, *atomic.Int64) {
	config, watches := sim.Config("manager"), &atomic.Int64{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Get("watch") != "" && path.Base(req.URL.Path) == "configmaps" {
				watches.Add(1)
			}
			return next.RoundTrip(req)
		})
	})
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mgr, err := manager.New(config, manager.Options{
		Cache:          o,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        metricsserver.Options{BindAddress: "0"},
	})
	g.Expect(err).NotTo(HaveOccurred())
	return mgr, watches
}

func TestBothControllersReadOneCache(t *testing.T) {
	for name, o := range map[string]cache.Options{"plain": {}, "theline": {NewInformer: clientgo.NewSharedIndexInformer}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			sim, err := apisim.New(nil)
			g.Expect(err).NotTo(HaveOccurred())
			mgr, watches := newManager(g, sim, o)
			theirs := make(chan string, 10)
			g.Expect(ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Named(name).Complete(reconcile.Func(
				func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
					theirs <- r.Name
					return ctrl.Result{}, nil
				}))).To(Succeed())
			g.Expect(managercache.Add(t.Context(), mgr)).To(Succeed())
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- mgr.Start(ctx) }()

			maps := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("shop")
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"text": "short"}}
			_, err = maps.Create(t.Context(), m, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			labels := func() (map[string]string, error) {
				m, err := maps.Get(t.Context(), "m", metav1.GetOptions{})
				return m.Labels, err
			}
			g.Eventually(labels, time.Minute).Should(HaveKey("example.com/has-text"))
			g.Eventually(theirs, time.Minute).Should(Receive(Equal("m")))
			g.Expect(watches.Load()).To(Equal(int64(1)))
			cancel()
			g.Expect(<-ended).To(Succeed())
		})
	}
}

func TestACacheOfSeveralNamespacesIsRefused(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	mgr, _ := newManager(g, sim, cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}})
	g.Expect(managercache.Add(t.Context(), mgr)).To(MatchError(ContainSubstring("sharing the manager's cache")))
}
