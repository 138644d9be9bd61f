package metrics_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
)

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
}

func TestACollectorShowsWhatControllersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(named("good"), named("bad"), named("worse"))
		controller, err := reconcile.New("test", informer.For(client.CoreV1().ConfigMaps("d"), nil),
			reconcile.Func[*corev1.ConfigMap](
				func(_ context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
					switch r.Key.Name {
					case "bad":
						return reconcile.Result{}, reconcile.Terminal(errors.New("bad"))
					case "worse":
						return reconcile.Result{}, reconcile.Terminal(errors.New("worse"))
					}
					return reconcile.Result{}, nil
				}), nil)
		g.Expect(err).NotTo(HaveOccurred())
		registry := prometheus.NewPedanticRegistry()
		g.Expect(registry.Register(metrics.New(controller))).To(Succeed())

		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx) }()
		synctest.Wait()
		g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP controller_runtime_reconcile_total Turns, by what they came to.
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="test",result="conflict"} 0
controller_runtime_reconcile_total{controller="test",result="error"} 0
controller_runtime_reconcile_total{controller="test",result="requeue_after"} 0
controller_runtime_reconcile_total{controller="test",result="success"} 1
controller_runtime_reconcile_total{controller="test",result="terminal"} 2
# HELP controller_runtime_reconcile_errors_total Turns that returned an error or panicked, terminal errors included.
# TYPE controller_runtime_reconcile_errors_total counter
controller_runtime_reconcile_errors_total{controller="test"} 2
# HELP homeostat_failing_keys Keys whose last turn failed, counted up to 1000.
# TYPE homeostat_failing_keys gauge
homeostat_failing_keys{controller="test"} 2
# HELP workqueue_adds_total Additions of keys, merged ones included.
# TYPE workqueue_adds_total counter
workqueue_adds_total{name="test"} 3
# HELP workqueue_depth Keys that wait for a worker.
# TYPE workqueue_depth gauge
workqueue_depth{name="test"} 0
`), "controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total", "homeostat_failing_keys",
			"workqueue_adds_total", "workqueue_depth")).To(Succeed())
		problems, err := testutil.GatherAndLint(registry)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(problems).To(BeEmpty())
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

func value(g *WithT, registry *prometheus.Registry, name string) float64 {
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			m := family.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return math.NaN()
}

func TestACollectorShowsWhatACacheTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		large := named("large")
		large.Data = map[string]string{"text": strings.Repeat("x", 100_000)}
		client := fake.NewClientset(large)
		in := informer.For(client.CoreV1().ConfigMaps("d"), nil)
		controller, err := reconcile.New("test", in, reconcile.Func[*corev1.ConfigMap](
			func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), nil)
		g.Expect(err).NotTo(HaveOccurred())
		registry := prometheus.NewPedanticRegistry()
		g.Expect(registry.Register(metrics.New(controller))).To(Succeed())
		g.Expect(value(g, registry, "homeostat_informer_bytes")).To(BeZero())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx) }()
		synctest.Wait()
		g.Expect(value(g, registry, "homeostat_informer_bytes")).To(BeNumerically("~", 100_000, 5000))
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

func TestACollectorShowsWhichKeysBackOffAndWhichAreKeptBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(named("good"), named("bad"), named("unseen"))
		controller, err := reconcile.New("test", informer.For(client.CoreV1().ConfigMaps("d"), nil),
			reconcile.Func[*corev1.ConfigMap](
				func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
					switch r.Key.Name {
					case "bad":
						return reconcile.After(time.Minute), errors.New("bad")
					case "unseen":
						later := named("unseen")
						later.ResourceVersion = "999"
						reconcile.Wrote(ctx, later)
					}
					return reconcile.Result{}, nil
				}), nil)
		g.Expect(err).NotTo(HaveOccurred())
		registry := prometheus.NewPedanticRegistry()
		g.Expect(registry.Register(metrics.New(controller))).To(Succeed())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx) }()
		synctest.Wait()
		g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP homeostat_queue_backing_off Keys that wait for the end of their back-off.
# TYPE homeostat_queue_backing_off gauge
homeostat_queue_backing_off{name="test"} 1
# HELP homeostat_queue_failing Keys that are retried: they have failed and not succeeded since.
# TYPE homeostat_queue_failing gauge
homeostat_queue_failing{name="test"} 1
# HELP homeostat_queue_holds_total Turns after which the key was kept back: for its writes to be seen, or because it was getting nowhere.
# TYPE homeostat_queue_holds_total counter
homeostat_queue_holds_total{name="test"} 1
`), "homeostat_queue_backing_off", "homeostat_queue_failing", "homeostat_queue_holds_total")).To(Succeed())
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

// always leads, or never does.
type always bool

func (a always) Run(ctx context.Context, fn func(context.Context) error) error {
	if a {
		return fn(ctx)
	}
	<-ctx.Done()
	return nil
}

func TestACollectorShowsInformersOnceAndWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(named("a"), named("b"))
		client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no role")
		})
		good := func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}
		maps := informer.For(client.CoreV1().ConfigMaps("d"), nil)
		var controllers []*reconcile.Controller
		for name, o := range map[string]*reconcile.Options{
			"leads":   {Leader: always(true)},
			"standby": {Leader: always(false)},
			"alone":   {Triggers: []reconcile.Trigger{reconcile.Owned(informer.For(client.CoreV1().Secrets("d"), nil))}},
		} {
			c, err := reconcile.New(name, maps, reconcile.Func[*corev1.ConfigMap](good), o)
			g.Expect(err).NotTo(HaveOccurred())
			controllers = append(controllers, c)
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(metrics.New(controllers...))

		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- reconcile.RunAll(ctx, controllers...) }()
		<-time.After(time.Second / 2) // which is too soon for a second try
		synctest.Wait()
		g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP homeostat_informer_objects Objects in the cache.
# TYPE homeostat_informer_objects gauge
homeostat_informer_objects{informer="configmaps",kind="ConfigMap"} 2
homeostat_informer_objects{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_events_total Changes that were handed on.
# TYPE homeostat_informer_events_total counter
homeostat_informer_events_total{informer="configmaps",kind="ConfigMap"} 2
homeostat_informer_events_total{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_lists_total Lists that were stored: all but the first were relists.
# TYPE homeostat_informer_lists_total counter
homeostat_informer_lists_total{informer="configmaps",kind="ConfigMap"} 1
homeostat_informer_lists_total{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_request_failures_total Lists and watches that failed.
# TYPE homeostat_informer_request_failures_total counter
homeostat_informer_request_failures_total{informer="configmaps",kind="ConfigMap"} 0
homeostat_informer_request_failures_total{informer="secrets",kind="Secret"} 1
# HELP homeostat_informer_watches_total Watches that were opened.
# TYPE homeostat_informer_watches_total counter
homeostat_informer_watches_total{informer="configmaps",kind="ConfigMap"} 1
homeostat_informer_watches_total{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_watch_stalls_total Watches that were ended because nothing came.
# TYPE homeostat_informer_watch_stalls_total counter
homeostat_informer_watch_stalls_total{informer="configmaps",kind="ConfigMap"} 0
homeostat_informer_watch_stalls_total{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_watch_silence_seconds Since when the watch that is silent longest has brought neither event nor bookmark.
# TYPE homeostat_informer_watch_silence_seconds gauge
homeostat_informer_watch_silence_seconds{informer="configmaps",kind="ConfigMap"} 0.5
# HELP homeostat_informer_synced Whether the first list has been stored and handed on.
# TYPE homeostat_informer_synced gauge
homeostat_informer_synced{informer="configmaps",kind="ConfigMap"} 1
homeostat_informer_synced{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_lag_seconds How long the oldest change has been waiting to be handed on.
# TYPE homeostat_informer_lag_seconds gauge
homeostat_informer_lag_seconds{informer="configmaps",kind="ConfigMap"} 0
homeostat_informer_lag_seconds{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_watch_age_seconds For how long the watch has been open that is open longest.
# TYPE homeostat_informer_watch_age_seconds gauge
homeostat_informer_watch_age_seconds{informer="configmaps",kind="ConfigMap"} 0.5
# HELP homeostat_leading Whether this replica leads and turns run, of controllers that elect a leader.
# TYPE homeostat_leading gauge
homeostat_leading{controller="leads"} 1
homeostat_leading{controller="standby"} 0
`), "homeostat_informer_objects", "homeostat_informer_synced", "homeostat_leading",
			"homeostat_informer_events_total", "homeostat_informer_lists_total", "homeostat_informer_request_failures_total",
			"homeostat_informer_watches_total", "homeostat_informer_watch_stalls_total",
			"homeostat_informer_watch_silence_seconds", "homeostat_informer_lag_seconds",
			"homeostat_informer_watch_age_seconds")).To(Succeed())
		problems, err := testutil.GatherAndLint(registry)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(problems).To(BeEmpty())
		stop()
		g.Expect(<-ended).To(HaveOccurred(), "one never synced")
	})
}
