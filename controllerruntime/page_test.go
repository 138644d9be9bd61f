package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/controllerruntime"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// listening is a manager whose handlers and checks a test calls without a port.
type listening struct {
	manager.Manager

	handler http.Handler
	checks  map[string]healthz.Checker
}

func (l *listening) AddMetricsServerExtraHandler(_ string, h http.Handler) error {
	l.handler = h
	return nil
}

func (l *listening) AddReadyzCheck(name string, check healthz.Checker) error {
	l.checks[name] = check
	return nil
}

func (l *listening) get(path string) string {
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/homeostat"+path, http.NoBody))
	return fmt.Sprint(w.Code, "\n", w.Body)
}

func newListening(g *WithT, config *rest.Config, change func(*manager.Options)) *listening {
	o := electionOptions()
	o.LeaderElection = false
	change(&o)
	mgr, err := controllerruntime.NewManager(config, o)
	g.Expect(err).NotTo(HaveOccurred())
	return &listening{mgr, nil, map[string]healthz.Checker{}}
}

func TestThePageNamesKeysThatFailAndCachesThatHaveNotSynced(t *testing.T) {
	electing(t, func(ctx context.Context, g *WithT, sim *apisim.Server, _ *heard) {
		for _, name := range []string{"good", "bad", "worse"} {
			created(ctx, g, sim, configMap(name, ""))
		}
		m := newListening(g, sim.Config("manager"), func(*manager.Options) {})
		var page controllerruntime.Page
		g.Expect(page.AddTo(m)).To(Succeed())
		var mended atomic.Bool
		g.Expect(ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(controllerruntime.Show(&page, "maps",
			reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
				switch {
				case r.Name == "worse" && !mended.Load():
					panic("no map")
				case r.Name == "bad" && !mended.Load():
					return reconcile.Result{}, errors.New("the map has no text\nand more")
				}
				return reconcile.Result{}, nil
			})))).To(Succeed())
		_, err := m.GetCache().GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(m.get("/readyz")).To(And(HavePrefix("503"), ContainSubstring("[-] informer/configmaps: the informer has not synced")))
		g.Expect(m.checks["caches"](nil)).To(MatchError(ContainSubstring("configmaps has not synced")))

		ended := make(chan error, 1)
		running, stop := context.WithCancel(ctx)
		go func() { ended <- m.Start(running) }()
		<-time.After(time.Minute)
		g.Expect(m.checks["caches"](nil)).To(Succeed())
		g.Expect(m.get("/livez")).To(HavePrefix("200"))
		g.Expect(m.get("/readyz")).To(And(HavePrefix("200"), ContainSubstring("shop/bad: the map has no text"),
			ContainSubstring("shop/worse: the reconciler panicked"), Not(Or(ContainSubstring("good"), ContainSubstring("and more")))))
		g.Expect(m.get("/debug/homeostat")).To(And(ContainSubstring("shop/bad"), ContainSubstring("configmaps"),
			Not(ContainSubstring("There are no controllers"))))
		mended.Store(true)
		<-time.After(20 * time.Minute) // back-off
		g.Expect(m.get("/readyz")).To(Equal("200\nok\n"))
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

func TestThePageNamesAtMostTenKeysOfAController(t *testing.T) {
	g := NewWithT(t)
	var page controllerruntime.Page
	page.Informers = func() []informer.Status {
		return []informer.Status{{
			Name: "pods", Synced: true, Problems: []informer.Problem{{Cause: "watch fails", Reason: "refused for 2m0s"}},
		}}
	}
	m := newListening(g, &rest.Config{Host: "http://x"}, func(o *manager.Options) { o.NewCache = nil })
	g.Expect(page.AddTo(m)).To(Succeed())
	r := controllerruntime.Show(&page, "maps", reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: 7}, errors.New("no")
	}))
	for n := range 12 {
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: fmt.Sprintf("m%02d", n)}})
		g.Expect(result).To(Equal(reconcile.Result{RequeueAfter: 7}))
		g.Expect(err).To(MatchError("no"))
	}
	g.Expect(m.get("/readyz")).To(And(HavePrefix("200"), ContainSubstring("m09"), Not(ContainSubstring("m10")),
		ContainSubstring("2 more"), ContainSubstring("[!] informer/pods: refused for 2m0s")))
}

func TestAPageNeedsACacheThatItCanSee(t *testing.T) {
	g := NewWithT(t)
	m := newListening(g, &rest.Config{Host: "http://x"}, func(o *manager.Options) { o.NewCache = nil })
	g.Expect((&controllerruntime.Page{}).AddTo(m)).To(MatchError(ContainSubstring("NewCache")))
}

func TestACacheWithSomeOfItsIndependentNamespacesIsReady(t *testing.T) {
	g := NewWithT(t)
	state := informer.Status{Name: "pods", Reason: `namespace "b": forbidden`}
	page := controllerruntime.Page{Informers: func() []informer.Status { return []informer.Status{state} }}
	m := newListening(g, &rest.Config{Host: "http://x"}, func(o *manager.Options) { o.NewCache = nil })
	g.Expect(page.AddTo(m)).To(Succeed())
	g.Expect(m.checks["caches"](nil)).To(MatchError(ContainSubstring("pods has not synced")))
	g.Expect(m.get("/readyz")).To(HavePrefix("503"))
	state.Partly = true
	g.Expect(m.checks["caches"](nil)).To(Succeed())
	g.Expect(m.get("/readyz")).To(HavePrefix("200"))
}
