package reconcile_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/reconcile"
)

func TestAnExternalFunctionThatFailsForAMinuteIsAProblem(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var works atomic.Bool
		var mu sync.Mutex
		var calls []time.Time // guarded by mu
		called := func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return calls
		}
		c := w.made(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.External("broker", func(ctx context.Context, _ func(reconcile.Key) error) error {
				mu.Lock()
				calls = append(calls, time.Now())
				mu.Unlock()
				if !works.CompareAndSwap(true, false) {
					return errBoom
				}
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Minute):
				}
				return errBoom
			}),
		}}, w.recorder())
		stop := w.startRun(c.Run)
		pass(30 * time.Second)
		w.Expect(c.Problems()).To(BeEmpty(), "it may be short")
		pass(5 * time.Minute)
		w.Expect(c.Problems()).To(ConsistOf(And(
			HaveField("Check", "controller/"+c.Name()), HaveField("Cause", "trigger fails"),
			HaveField("Reason", `the external trigger "broker" fails, so its keys are not reconciled: boom`),
			HaveField("Since", called()[0]))))

		works.Store(true)
		pass(time.Minute + time.Second)
		w.Expect(works.Load()).To(BeFalse(), "it is called")
		w.Expect(c.Problems()).NotTo(BeEmpty(), "it may fail soon")
		pass(time.Minute)
		w.Expect(c.Problems()).To(BeEmpty())
		before := len(called())
		pass(time.Minute)
		w.Expect(len(called())-before).To(BeNumerically(">", 5), "the back-off begins again")
		w.Expect(c.Problems()).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

func TestAMapperThatFailsForAMinuteIsAProblem(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var fails atomic.Bool
		fails.Store(true)
		c := w.made(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.Mapped(w.in, func(_ context.Context, _, o *corev1.ConfigMap) ([]reconcile.Key, error) {
				if o.Name == "odd" && fails.Load() {
					panic("it is odd")
				}
				return nil, nil
			}),
		}}, w.recorder())
		stop := w.startRun(c.Run)
		w.create("odd")
		w.create("even")
		pass(30 * time.Second)
		w.Expect(c.Problems()).To(BeEmpty())
		pass(time.Minute)
		w.Expect(c.Problems()).To(ConsistOf(And(HaveField("Cause", "trigger fails"),
			HaveField("Reason", And(ContainSubstring(`for "d/odd" fails`), ContainSubstring("it is odd"))))))
		fails.Store(false)
		pass(5 * time.Minute)
		w.Expect(c.Problems()).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

func TestTwoExternalTriggersWithOneNameAreTwoProblems(t *testing.T) {
	inFixture(t, func(w *fixture) {
		fails := func(context.Context, func(reconcile.Key) error) error { return errBoom }
		c := w.made(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.External("broker", fails), reconcile.External("broker", fails),
		}}, w.recorder())
		stop := w.startRun(c.Run)
		pass(3 * time.Minute)
		w.Expect(c.Problems()).To(HaveLen(2))
		w.Expect(stop()).To(Succeed())
	})
}
