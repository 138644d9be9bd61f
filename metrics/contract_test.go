package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"A metric that client-go or controller-runtime also has means the same as there: workqueue_*, " +
			"controller_runtime_*, rest_client_* and leader_election_master_status.": allOf(
			TestAddsCountKeysThatWereNotWaiting, TestRetriesCountAdditionsWithADelay,
			TestResultsEqualControllerRuntimes, TestWorkDurationCountsFinishedReconciles,
			TestQueuesAreLabelledByNameAndController, TestTheMasterStatusFollowsTheLease,
			TestRequestsOfClientGoAreCounted, TestACollectorShowsWhatWaitsByLane,
		),
		"All other names begin with homeostat_.":                          testNames,
		"A conflict counts as an error and as a retry, as it does there.": TestAConflictStormShowsInErrorsAndRetries,
		"Labels are names of controllers, informers, kinds, lanes, slots, outcomes, Leases, servers, checks and causes, never names or contents of objects.": testLabels,
	})
}

func allOf(tests ...func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		for _, test := range tests {
			test(t)
		}
	}
}

// theirs are the metrics that this package shares with client-go and
// controller-runtime. Each has a test of its meaning.
var theirs = []string{
	"workqueue_adds_total", "workqueue_depth", "workqueue_longest_running_processor_seconds",
	"workqueue_queue_duration_seconds", "workqueue_retries_total", "workqueue_unfinished_work_seconds",
	"workqueue_work_duration_seconds", "controller_runtime_active_workers",
	"controller_runtime_max_concurrent_reconciles", "controller_runtime_reconcile_errors_total",
	"controller_runtime_reconcile_panics_total", "controller_runtime_reconcile_time_seconds",
	"controller_runtime_reconcile_total", "controller_runtime_terminal_reconcile_errors_total",
	"leader_election_master_status",
}

func testNames(t *testing.T) {
	inEverything(t, func(s *fixture) {
		families, err := s.registry.Gather()
		s.Expect(err).NotTo(HaveOccurred())
		var shared []string
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "homeostat_") {
				shared = append(shared, f.GetName())
			}
		}
		s.Expect(shared).To(ConsistOf(theirs))
	})
}

func testLabels(t *testing.T) {
	inEverything(t, func(s *fixture) {
		families, err := s.registry.Gather()
		s.Expect(err).NotTo(HaveOccurred())
		values := map[string]map[string]bool{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if values[l.GetName()] == nil {
						values[l.GetName()] = map[string]bool{}
					}
					values[l.GetName()][l.GetValue()] = true
				}
			}
		}
		for label, found := range values {
			s.Expect(found).NotTo(HaveKey(ContainSubstring("object-")), label)
		}
		s.Expect(values["name"]).To(And(HaveLen(2), HaveKey("test"), HaveKey("lease")))
		s.Expect(values).To(HaveLen(9), "cause, check, controller, informer, kind, lane, name, outcome and result")
	})
}

// inEverything calls f while a controller has a value for every metric.
func inEverything(t *testing.T, f func(s *fixture)) {
	t.Helper()
	inBubble(t, []runtime.Object{named("object-good"), named("object-bad")}, func(s *fixture) {
		s.controller("test", &reconcile.Options{
			Leader: onLease{true, "lease"},
			Known: names.Func(func(context.Context) ([]names.Name, error) {
				return []names.Name{{Key: reconcile.Key{Name: "object-gone"}}}, nil
			}),
		}, func(_ context.Context, r request) (reconcile.Result, error) {
			if r.Key.Name == "object-bad" {
				return nothing, errors.New("object-bad is bad")
			}
			return nothing, nil
		})
		s.Expect(s.registry.Register(metrics.Problems(func() []inspect.Problem {
			return []inspect.Problem{{Check: "cluster/west", Object: "object-odd", Cause: "unreachable"}}
		}))).To(Succeed())
		stop := s.start()
		synctest.Wait()
		f(s)
		s.Expect(stop()).To(Succeed())
	})
}
