package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// The following tests show what client-go v0.37 and controller-runtime v0.25
// count under these names.

// client-go counts an addition only if the key was not waiting. That also
// applies to the addition at the end of a delay.
func TestAddsCountKeysThatWereNotWaiting(t *testing.T) {
	inBubble(t, []runtime.Object{named("a")}, func(s *fixture) {
		reconciles := 0
		s.controller("test", nil, func(context.Context, request) (reconcile.Result, error) {
			if reconciles++; reconciles == 1 {
				<-time.After(time.Minute)
				return nothing, nil
			}
			if reconciles == 2 {
				return reconcile.After(time.Second), nil
			}
			return nothing, nil
		})
		stop := s.start()
		for _, version := range []string{"7", "8", "9"} { // during the first reconcile: the last two are merged
			s.update("a", version)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		s.Expect(reconciles).To(Equal(3))
		s.Expect(s.value("workqueue_adds_total")).To(Equal(3.0))
		s.Expect(stop()).To(Succeed())
	})
}

// client-go counts every addition with a delay. controller-runtime adds with a
// delay after errors, which include conflicts, and for RequeueAfter.
func TestRetriesCountAdditionsWithADelay(t *testing.T) {
	inBubble(t, []runtime.Object{named("a")}, func(s *fixture) {
		reconciles := 0
		s.controller("test", nil, func(context.Context, request) (reconcile.Result, error) {
			reconciles++
			switch reconciles {
			case 1:
				return nothing, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("changed"))
			case 2:
				return nothing, errors.New("broken")
			case 3:
				return reconcile.After(time.Second), nil
			default:
				return nothing, reconcile.Terminal(errors.New("hopeless"))
			}
		})
		stop := s.start()
		<-time.After(time.Hour)
		synctest.Wait()
		s.Expect(reconciles).To(Equal(4))
		s.Expect(s.value("workqueue_retries_total")).To(Equal(3.0))
		s.Expect(stop()).To(Succeed())
	})
}

// controller-runtime counts a conflict that a reconciler returns as an error,
// and users have alerts on it.
func TestAConflictStormShowsInErrorsAndRetries(t *testing.T) {
	inBubble(t, []runtime.Object{named("a")}, func(s *fixture) {
		s.controller("test", nil, func(context.Context, request) (reconcile.Result, error) {
			return nothing, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("changed"))
		})
		stop := s.start()
		<-time.After(time.Minute)
		synctest.Wait()
		conflicts := s.value("controller_runtime_reconcile_errors_total")
		s.Expect(conflicts).To(BeNumerically(">=", 5))
		s.Expect(s.value("workqueue_retries_total")).To(Equal(conflicts))
		s.Expect(s.labelled("controller_runtime_reconcile_total", "result", "error")).To(Equal(conflicts))
		s.Expect(stop()).To(Succeed())
	})
}

func TestResultsEqualControllerRuntimes(t *testing.T) {
	inBubble(t, []runtime.Object{named("good"), named("later"), named("bad"), named("hopeless")}, func(s *fixture) {
		s.controller("test", nil, func(_ context.Context, r request) (reconcile.Result, error) {
			switch r.Key.Name {
			case "later":
				return reconcile.After(time.Hour), nil
			case "bad":
				return reconcile.After(time.Hour), errors.New("bad")
			case "hopeless":
				return nothing, reconcile.Terminal(errors.New("hopeless"))
			default:
				return nothing, nil
			}
		})
		stop := s.start()
		synctest.Wait()
		s.shows(`
# HELP controller_runtime_reconcile_total Reconciles, by result; terminal errors and conflicts are errors.
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="test",result="error"} 2
controller_runtime_reconcile_total{controller="test",result="requeue_after"} 1
controller_runtime_reconcile_total{controller="test",result="success"} 1
# HELP controller_runtime_terminal_reconcile_errors_total Reconciles that returned a terminal error, and are not retried until an object changes.
# TYPE controller_runtime_terminal_reconcile_errors_total counter
controller_runtime_terminal_reconcile_errors_total{controller="test"} 1
`)
		s.Expect(s.labelled("homeostat_reconciles_total", "outcome", "terminal")).To(Equal(1.0))
		s.Expect(stop()).To(Succeed())
	})
}

func TestWorkDurationCountsFinishedReconciles(t *testing.T) {
	inBubble(t, []runtime.Object{named("a")}, func(s *fixture) {
		s.controller("test", nil, func(context.Context, request) (reconcile.Result, error) {
			<-time.After(7 * time.Second)
			return nothing, nil
		})
		stop := s.start()
		s.Expect(s.histogram("workqueue_work_duration_seconds").GetSampleCount()).To(BeZero())
		<-time.After(10 * time.Second)
		synctest.Wait()
		for _, name := range []string{"workqueue_work_duration_seconds", "controller_runtime_reconcile_time_seconds"} {
			took := s.histogram(name)
			s.Expect(took.GetSampleCount()).To(Equal(uint64(1)))
			s.Expect(took.GetSampleSum()).To(Equal(7.0))
			for _, b := range took.GetBucket() {
				below := uint64(0)
				if b.GetUpperBound() >= 7 {
					below = 1
				}
				s.Expect(b.GetCumulativeCount()).To(Equal(below), "%v", b.GetUpperBound())
			}
		}
		s.Expect(stop()).To(Succeed())
	})
}

func TestQueuesAreLabelledByNameAndController(t *testing.T) {
	inBubble(t, nil, func(s *fixture) {
		s.controller("test", nil, idle)
		s.register()
		families, err := s.registry.Gather()
		s.Expect(err).NotTo(HaveOccurred())
		checked := 0
		for _, f := range families {
			if len(f.GetName()) < 9 || f.GetName()[:9] != "workqueue" {
				continue
			}
			checked++
			labels := map[string]string{}
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			s.Expect(labels).To(Equal(map[string]string{"name": "test", "controller": "test"}), f.GetName())
		}
		s.Expect(checked).To(Equal(7), "depth, adds, retries, work and queue duration, unfinished and longest")
	})
}

// onLease is an election by a named Lease, which this replica wins or not.
type onLease struct {
	always
	name string
}

func (l onLease) LeaseName() string { return l.name }

var _ inspect.LeaseNamer = (*leader.Elector)(nil)

func TestTheMasterStatusFollowsTheLease(t *testing.T) {
	inBubble(t, nil, func(s *fixture) {
		s.controller("first", &reconcile.Options{Leader: onLease{true, "mine"}}, idle)
		s.controller("second", &reconcile.Options{Leader: onLease{true, "mine"}}, idle)
		s.controller("third", &reconcile.Options{Leader: onLease{false, "theirs"}}, idle)
		stop := s.start()
		synctest.Wait()
		s.shows(`
# HELP leader_election_master_status Whether this replica holds the Lease: 1 on one replica, 0 on the others.
# TYPE leader_election_master_status gauge
leader_election_master_status{name="mine"} 1
leader_election_master_status{name="theirs"} 0
`)
		s.Expect(stop()).To(Succeed())
	})
}

func TestRequestsOfClientGoAreCounted(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics.Requests())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "{}", http.StatusConflict)
	}))
	defer server.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	_, err := client.CoreV1().Pods("d").Get(t.Context(), "p", metav1.GetOptions{})
	g.Expect(err).To(HaveOccurred())
	host := server.Listener.Addr().String()
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if text := m.String(); strings.Contains(text, host) {
				found[f.GetName()] = text
			}
		}
	}
	g.Expect(found).To(HaveKeyWithValue("rest_client_requests_total", And(
		ContainSubstring(`value:"409"`), ContainSubstring(`value:"GET"`))))
	g.Expect(found).To(HaveKeyWithValue("rest_client_request_duration_seconds", ContainSubstring("sample_count:1")))
	g.Expect(metrics.Requests()).To(BeIdenticalTo(metrics.Requests()), "one for the process")
	problems, err := testutil.GatherAndLint(registry)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problems).To(BeEmpty())
}
