package metrics_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
)

func TestACollectorShowsWhatControllersDo(t *testing.T) {
	inBubble(t, []runtime.Object{named("good"), named("bad"), named("worse")}, func(s *fixture) {
		s.controller("test", nil, func(_ context.Context, r request) (reconcile.Result, error) {
			if r.Key.Name == "good" {
				return nothing, nil
			}
			return nothing, reconcile.Terminal(errors.New(r.Key.Name))
		})
		stop := s.start()
		s.shows(`
# HELP homeostat_reconciles_total Reconciles, by how they ended.
# TYPE homeostat_reconciles_total counter
homeostat_reconciles_total{controller="test",outcome="conflict"} 0
homeostat_reconciles_total{controller="test",outcome="error"} 0
homeostat_reconciles_total{controller="test",outcome="requeue_after"} 0
homeostat_reconciles_total{controller="test",outcome="success"} 1
homeostat_reconciles_total{controller="test",outcome="terminal"} 2
# HELP controller_runtime_reconcile_errors_total Reconciles that returned an error or panicked, terminal errors and conflicts included.
# TYPE controller_runtime_reconcile_errors_total counter
controller_runtime_reconcile_errors_total{controller="test"} 2
# HELP homeostat_failing_keys Keys whose last reconcile failed, counted up to 1000.
# TYPE homeostat_failing_keys gauge
homeostat_failing_keys{controller="test"} 2
# HELP workqueue_adds_total Additions of keys that were not waiting.
# TYPE workqueue_adds_total counter
workqueue_adds_total{controller="test",name="test"} 3
# HELP workqueue_depth Keys that wait for a worker.
# TYPE workqueue_depth gauge
workqueue_depth{controller="test",name="test"} 0
`)
		s.Expect(stop()).To(Succeed())
	})
}

func TestACollectorShowsTheMemoryOfACache(t *testing.T) {
	large := named("large")
	large.Data = map[string]string{"text": strings.Repeat("x", 100_000)}
	inBubble(t, []runtime.Object{large}, func(s *fixture) {
		s.controller("test", nil, idle)
		stop := s.start()
		s.Expect(s.value("homeostat_informer_bytes")).To(BeNumerically("~", 100_000, 5000))
		s.Expect(stop()).To(Succeed())
		s.Expect(s.value("homeostat_informer_bytes")).To(BeZero())
	})
}

func TestACollectorShowsWhichKeysBackOffAndWhichAreHeld(t *testing.T) {
	inBubble(t, []runtime.Object{named("good"), named("bad"), named("unseen")}, func(s *fixture) {
		s.controller("test", nil, func(ctx context.Context, r request) (reconcile.Result, error) {
			switch r.Key.Name {
			case "bad":
				return reconcile.After(time.Minute), errors.New("bad")
			case "unseen":
				later := named("unseen")
				later.ResourceVersion = "999"
				reconcile.Wrote(ctx, later)
			}
			return nothing, nil
		})
		stop := s.start()
		s.shows(`
# HELP homeostat_queue_backing_off Keys that wait for the end of their back-off.
# TYPE homeostat_queue_backing_off gauge
homeostat_queue_backing_off{name="test"} 1
# HELP homeostat_queue_failing Keys that have failed and not succeeded since, and are retried.
# TYPE homeostat_queue_failing gauge
homeostat_queue_failing{name="test"} 1
# HELP homeostat_queue_holds_total Reconciles after which the key was held: until its writes are seen, or because it made no progress.
# TYPE homeostat_queue_holds_total counter
homeostat_queue_holds_total{name="test"} 1
`)
		s.Expect(stop()).To(Succeed())
	})
}

// One of three keys is being reconciled, and the others wait.
func TestACollectorShowsWhatWaitsByLane(t *testing.T) {
	inBubble(t, []runtime.Object{named("a"), named("b"), named("c")}, func(s *fixture) {
		s.controller("test", &reconcile.Options{Workers: 1}, func(context.Context, request) (reconcile.Result, error) {
			<-time.After(10 * time.Second)
			return nothing, nil
		})
		stop := s.start()
		<-time.After(5 * time.Second)
		s.shows(`
# HELP controller_runtime_active_workers Reconciles that are running now.
# TYPE controller_runtime_active_workers gauge
controller_runtime_active_workers{controller="test"} 1
# HELP controller_runtime_max_concurrent_reconciles Workers: how many reconciles may run at once.
# TYPE controller_runtime_max_concurrent_reconciles gauge
controller_runtime_max_concurrent_reconciles{controller="test"} 1
# HELP homeostat_queue_lane_depth Keys that wait for a worker, by lane.
# TYPE homeostat_queue_lane_depth gauge
homeostat_queue_lane_depth{lane="background",name="test"} 2
homeostat_queue_lane_depth{lane="normal",name="test"} 0
homeostat_queue_lane_depth{lane="retrying",name="test"} 0
# HELP homeostat_queue_lane_oldest_seconds For how long the next key has waited, by lane.
# TYPE homeostat_queue_lane_oldest_seconds gauge
homeostat_queue_lane_oldest_seconds{lane="background",name="test"} 5
homeostat_queue_lane_oldest_seconds{lane="normal",name="test"} 0
homeostat_queue_lane_oldest_seconds{lane="retrying",name="test"} 0
# HELP workqueue_depth Keys that wait for a worker.
# TYPE workqueue_depth gauge
workqueue_depth{controller="test",name="test"} 2
# HELP workqueue_longest_running_processor_seconds The longest time that a worker has held its key.
# TYPE workqueue_longest_running_processor_seconds gauge
workqueue_longest_running_processor_seconds{controller="test",name="test"} 5
# HELP workqueue_unfinished_work_seconds Total time that workers have held the keys they hold now.
# TYPE workqueue_unfinished_work_seconds gauge
workqueue_unfinished_work_seconds{controller="test",name="test"} 5
`)
		s.Expect(stop()).To(Succeed())
	})
}

// The cache never sees version 999, so that the key waits for its deadline.
func TestACollectorShowsWhatIsOverdue(t *testing.T) {
	a := named("a")
	a.ResourceVersion = "1"
	inBubble(t, []runtime.Object{a}, func(s *fixture) {
		reconciles := 0
		s.controller("test", nil, func(ctx context.Context, r request) (reconcile.Result, error) {
			if reconciles++; reconciles > 1 {
				return nothing, nil
			}
			later := named("a")
			later.ResourceVersion = "999"
			reconcile.Wrote(ctx, later)
			return reconcile.After(time.Second), nil
		})
		stop := s.start()
		<-time.After(10*time.Second + time.Second)
		synctest.Wait()
		s.shows(`
# HELP homeostat_freshness_holdbacks_total Reconciles after which the key waited until the caches had seen its writes.
# TYPE homeostat_freshness_holdbacks_total counter
homeostat_freshness_holdbacks_total{controller="test"} 1
# HELP homeostat_freshness_overdue_total Reconciles that ran before the caches had seen the key's last writes, because Options.FreshnessDeadline had passed.
# TYPE homeostat_freshness_overdue_total counter
homeostat_freshness_overdue_total{controller="test"} 1
`)
		s.Expect(stop()).To(Succeed())
	})
}

func TestACollectorShowsPanicsAndRetries(t *testing.T) {
	inBubble(t, []runtime.Object{named("a")}, func(s *fixture) {
		reconciles := 0
		s.controller("test", nil, func(context.Context, request) (reconcile.Result, error) {
			if reconciles++; reconciles == 1 {
				panic("no way")
			}
			return nothing, nil
		})
		stop := s.start()
		<-time.After(time.Second)
		synctest.Wait()
		s.shows(`
# HELP controller_runtime_reconcile_panics_total Reconciles that panicked.
# TYPE controller_runtime_reconcile_panics_total counter
controller_runtime_reconcile_panics_total{controller="test"} 1
# HELP workqueue_retries_total Reconciles after which the key was added again with a delay: after an error, a conflict, or with After.
# TYPE workqueue_retries_total counter
workqueue_retries_total{controller="test",name="test"} 1
`)
		s.Expect(stop()).To(Succeed())
	})
}

// Every second the reconciler repeats an edit that another client undoes.
func TestACollectorShowsHotLoops(t *testing.T) {
	a := named("a")
	a.UID, a.ResourceVersion = "1", "1"
	inBubble(t, []runtime.Object{a}, func(s *fixture) {
		reconciles := 0
		s.controller("test", nil, func(ctx context.Context, r request) (reconcile.Result, error) {
			cached, _ := r.Object()
			written := cached.DeepCopy()
			reconciles++
			written.ResourceVersion, written.Data = "x"+strconv.Itoa(reconciles), map[string]string{"mine": "yes"}
			reconcile.Wrote(ctx, written)
			return reconcile.After(time.Second), nil
		})
		stop := s.start()
		s.Expect(s.value("homeostat_hot_loops_total")).To(BeZero())
		<-time.After(5 * time.Minute) // each write is waited for, and never seen
		synctest.Wait()
		s.Expect(s.value("homeostat_hot_loops_total")).To(BeNumerically(">", 0))
		s.Expect(stop()).To(Succeed())
	})
}

func TestACollectorShowsCallsThatDoNotReturn(t *testing.T) {
	inBubble(t, []runtime.Object{named("a")}, func(s *fixture) {
		release := make(chan struct{})
		s.controller("test", &reconcile.Options{ReconcileTimeout: time.Second},
			func(context.Context, request) (reconcile.Result, error) {
				<-release
				return reconcile.Result{}, nil
			})
		stop := s.start()
		s.Expect(s.value("homeostat_stuck_calls")).To(BeZero())
		<-time.After(time.Minute)
		synctest.Wait()
		s.Expect(s.value("homeostat_stuck_calls")).To(Equal(1.0))
		s.Expect(s.value("homeostat_stuck_call_reports_total")).To(BeNumerically(">", 0))
		close(release)
		synctest.Wait()
		s.Expect(s.value("homeostat_stuck_calls")).To(BeZero())
		s.Expect(stop()).To(Succeed())
	})
}

func TestACollectorShowsPanicsOfHandlers(t *testing.T) {
	inBubble(t, []runtime.Object{named("a")}, func(s *fixture) {
		s.controller("test", nil, idle)
		s.maps.Handle(func(informer.Event[*configMap]) { panic("broken") })
		stop := s.start()
		s.Expect(s.value("homeostat_informer_handler_panics_total")).To(Equal(1.0))
		s.Expect(stop()).To(Succeed())
	})
}

// always is an election that this replica always wins, or never.
type always bool

func (a always) Run(ctx context.Context, fn func(context.Context) error) error {
	if a {
		return fn(ctx)
	}
	<-ctx.Done()
	return nil
}

func TestACollectorShowsInformersOnceAndWhoLeads(t *testing.T) {
	inBubble(t, []runtime.Object{named("a"), named("b")}, func(s *fixture) {
		s.client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("no role")
		})
		secrets := informer.For(s.client.CoreV1().Secrets("d"), nil)
		s.controller("leads", &reconcile.Options{Leader: always(true)}, idle)
		s.controller("standby", &reconcile.Options{Leader: always(false)}, idle)
		s.controller("alone", &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(secrets)}}, idle)
		stop := s.start()
		<-time.After(time.Second / 2) // which is too soon for a second try
		synctest.Wait()
		s.shows(`
# HELP homeostat_informer_objects Objects in the cache.
# TYPE homeostat_informer_objects gauge
homeostat_informer_objects{informer="configmaps",kind="ConfigMap"} 2
homeostat_informer_objects{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_events_total Changes that were delivered to handlers.
# TYPE homeostat_informer_events_total counter
homeostat_informer_events_total{informer="configmaps",kind="ConfigMap"} 2
homeostat_informer_events_total{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_lists_total Lists that were stored. All but the first were relists.
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
# HELP homeostat_informer_watch_stalls_total Watches that were ended because they were silent.
# TYPE homeostat_informer_watch_stalls_total counter
homeostat_informer_watch_stalls_total{informer="configmaps",kind="ConfigMap"} 0
homeostat_informer_watch_stalls_total{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_watch_silence_seconds How long the least recently active watch has received neither an event nor a bookmark.
# TYPE homeostat_informer_watch_silence_seconds gauge
homeostat_informer_watch_silence_seconds{informer="configmaps",kind="ConfigMap"} 0.5
# HELP homeostat_informer_restores_total How often the server's resourceVersions went back, as after a restore of its storage.
# TYPE homeostat_informer_restores_total counter
homeostat_informer_restores_total{informer="configmaps",kind="ConfigMap"} 0
homeostat_informer_restores_total{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_synced Whether the first list has been stored and delivered to handlers.
# TYPE homeostat_informer_synced gauge
homeostat_informer_synced{informer="configmaps",kind="ConfigMap"} 1
homeostat_informer_synced{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_lag_seconds How long the oldest change has been waiting to be delivered to handlers.
# TYPE homeostat_informer_lag_seconds gauge
homeostat_informer_lag_seconds{informer="configmaps",kind="ConfigMap"} 0
homeostat_informer_lag_seconds{informer="secrets",kind="Secret"} 0
# HELP homeostat_informer_watch_age_seconds Age of the watch that has been open for the longest time.
# TYPE homeostat_informer_watch_age_seconds gauge
homeostat_informer_watch_age_seconds{informer="configmaps",kind="ConfigMap"} 0.5
# HELP homeostat_leading Whether this replica leads and reconciles, for controllers that elect a leader.
# TYPE homeostat_leading gauge
homeostat_leading{controller="leads"} 1
homeostat_leading{controller="standby"} 0
`)
		s.Expect(stop()).To(HaveOccurred(), "one never synced")
	})
}

// Alerts compare these metrics with 0. A kind that most clusters lack must not
// raise them.
func TestAnOptionalControllerThatWaitsRaisesNoAlert(t *testing.T) {
	inBubble(t, nil, func(s *fixture) {
		var served atomic.Bool
		s.client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !served.Load(), nil, errors.New("not installed")
		})
		secrets := informer.For(s.client.CoreV1().Secrets("d"), nil)
		s.controller("home", &reconcile.Options{Leader: always(true)}, idle)
		s.controller("waits", &reconcile.Options{
			Optional: true, Leader: always(true), Triggers: []reconcile.Trigger{reconcile.Owned(secrets)},
		}, idle)
		stop := s.start()
		<-time.After(time.Hour)
		s.shows(`
# HELP homeostat_informer_synced Whether the first list has been stored and delivered to handlers.
# TYPE homeostat_informer_synced gauge
homeostat_informer_synced{informer="configmaps",kind="ConfigMap"} 1
# HELP homeostat_leading Whether this replica leads and reconciles, for controllers that elect a leader.
# TYPE homeostat_leading gauge
homeostat_leading{controller="home"} 1
`)
		served.Store(true)
		<-time.After(time.Minute)
		s.shows(`
# HELP homeostat_leading Whether this replica leads and reconciles, for controllers that elect a leader.
# TYPE homeostat_leading gauge
homeostat_leading{controller="home"} 1
homeostat_leading{controller="waits"} 1
`)
		s.Expect(stop()).To(Succeed())
	})
}

func TestACollectorShowsReferences(t *testing.T) {
	inBubble(t, []runtime.Object{named("a"), named("b")}, func(s *fixture) {
		secrets := informer.Referenced(s.client.CoreV1().Secrets, nil)
		s.controller("test", &reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(secrets, func(m *configMap) []reconcile.Key {
				return []reconcile.Key{{Namespace: "d", Name: m.Name}, {Namespace: "d", Name: "both"}}
			}),
		}}, idle)
		stop := s.start()
		<-time.After(time.Minute)
		synctest.Wait()
		s.Expect(s.value("homeostat_informer_references")).To(Equal(3.0))
		s.Expect(s.value("homeostat_informer_reference_watches")).To(Equal(3.0))
		s.Expect(stop()).To(Succeed())
	})
}

func TestANameThatIsNoTextFailsNoScrape(t *testing.T) {
	inBubble(t, nil, func(s *fixture) {
		odd, err := reconcile.New("\xff", s.maps, function(idle), nil)
		s.Expect(err).NotTo(HaveOccurred())
		s.registry.MustRegister(metrics.New(odd))
		count, err := testutil.GatherAndCount(s.registry, "homeostat_failing_keys", "workqueue_queue_duration_seconds")
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(count).To(BeNumerically(">", 1))
	})
}
