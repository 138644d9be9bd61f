package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

var errLost = errors.New("leadership is lost")

// terms is a leadership that the test gives and takes.
type terms struct{ change chan bool }

func (l terms) Run(ctx context.Context, fn func(context.Context) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.change:
		}
		leading, end := context.WithCancelCause(context.WithoutCancel(ctx))
		done := make(chan error, 1)
		go func() { done <- fn(leading) }()
		select {
		case <-ctx.Done():
			end(ctx.Err())
			return <-done
		case <-l.change:
			end(errLost)
			if err := <-done; err != nil {
				return err
			}
		}
	}
}

// A replica that stands by is stopping while a call of user code keeps it.
func TestAStandbyThatIsToldToStopIsStopping(t *testing.T) {
	inFixture(t, func(w *fixture) {
		c := w.made(&reconcile.Options{
			Leader: terms{make(chan bool)},
			Triggers: []reconcile.Trigger{reconcile.External("slow", func(ctx context.Context, _ func(reconcile.Key) error) error {
				<-ctx.Done()
				<-time.After(2 * time.Second)
				return nil
			})},
		}, w.recorder())
		stop := w.startRun(c.Run)
		pass(time.Second)
		w.Expect(c.Phase()).To(Equal(inspect.Standby))
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		<-time.After(time.Second)
		w.Expect(c.Phase()).To(Equal(inspect.Stopping))
		w.Expect(<-stopped).To(Succeed())
		w.Expect(c.Phase()).To(Equal(inspect.Stopped))
	})
}

func TestReconcilesRunOnlyWhileThisReplicaLeads(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		leadership := terms{make(chan bool)}
		stop := w.start(&reconcile.Options{Leader: leadership}, func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Name)
			return nothing, nil
		})
		pass(time.Hour)
		w.Expect(w.in.HasSynced()).To(BeTrue(), "a standby is warm")
		w.Expect(w.reconciled()).To(BeEmpty())
		leadership.change <- true
		w.Expect(w.reconciled()).To(Equal([]string{"a"}))
		leadership.change <- false
		w.Expect(w.reconciled()).To(BeEmpty())
		w.create("b")
		w.Expect(w.reconciled()).To(BeEmpty())
		leadership.change <- true
		w.Expect(w.reconciled()).To(Equal([]string{"b"}), "what has changed meanwhile")
		w.Expect(stop()).To(Succeed())
	})
}

func TestALostLeadershipCancelsReconcilesAtOnceAndTheyAreRepeatedInTheNext(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		leadership := terms{make(chan bool)}
		stop := w.start(&reconcile.Options{Leader: leadership, Grace: time.Hour},
			func(ctx context.Context, r request) (reconcile.Result, error) {
				select {
				case <-ctx.Done():
					w.ran(context.Cause(ctx).Error())
					return nothing, ctx.Err()
				case <-time.After(time.Minute):
					w.ran("finished")
					return nothing, nil
				}
			})
		leadership.change <- true
		pass(time.Second)
		leadership.change <- false
		w.Expect(w.reconciled()).To(Equal([]string{errLost.Error()}))
		w.Expect(strings.Join(w.logged(), "\n")).To(And(
			ContainSubstring("reconcile was cancelled"), Not(ContainSubstring("reconcile failed"))))
		leadership.change <- true
		pass(2 * time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"finished"}))
		w.Expect(stop()).To(Succeed())
	})
}

// Alerts would fire for keys that the new leader has repaired.
func TestWhatAReplicaKnowsOfKeysIsOfItsTerm(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b")
		leadership := terms{make(chan bool)}
		var healed atomic.Bool
		c := w.made(&reconcile.Options{Leader: leadership}, func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Name)
			if r.Key.Name == "a" && !healed.Load() {
				return nothing, errors.New("boom")
			}
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		pass(time.Hour)
		w.Expect(c.QueueStats().Lanes).To(HaveEach(And(HaveField("Depth", 0), HaveField("Oldest", time.Duration(0)))), "a standby")
		leadership.change <- true
		pass(time.Hour)
		longest := 0
		for lane := range c.QueueStats().Lanes {
			for bucket, n := range c.QueueStats().Lanes[lane].Waits {
				if n > 0 {
					longest = max(longest, bucket)
				}
			}
		}
		w.Expect(queue.LaneStats{}.WaitBound(longest)).To(BeNumerically("<", time.Minute), "waiting times begin with the term")
		w.Expect(c.Stats().Failing).To(Equal(1))
		w.Expect(c.QueueStats().Failing).To(Equal(1))
		leadership.change <- false
		pass(time.Second)
		w.Expect(c.Stats().Failing).To(BeZero())
		w.Expect(c.QueueStats()).To(And(HaveField("Failing", 0), HaveField("BackingOff", 0), HaveField("Delayed", 0)))
		w.Expect(c.Status(10).Keys).NotTo(ContainElement(HaveField("Failure", Not(BeEmpty()))))
		healed.Store(true)
		w.reconciled()
		leadership.change <- true
		w.Expect(w.reconciled()).To(ContainElement("a"), "at once, and not after the back-off of the last term")
		w.Expect(stop()).To(Succeed())
	})
}

// seen records the phase of a controller when its leadership may be given up.
type seen struct{ released func() }

func (l seen) Run(ctx context.Context, fn func(context.Context) error) error {
	defer l.released()
	return fn(ctx)
}

func TestTheLeadershipEndsAfterTheLastReconcileAndBeforeTheCaches(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		stop := w.start(&reconcile.Options{
			Leader: seen{func() { w.ran(fmt.Sprintf("released, caches run: %v", w.in.Status().Running)) }},
		}, func(context.Context, request) (reconcile.Result, error) {
			<-time.After(10 * time.Second)
			w.ran("reconcile ends")
			return nothing, nil
		})
		pass(time.Second)
		w.Expect(stop()).To(Succeed())
		w.Expect(w.reconciled()).To(Equal([]string{"reconcile ends", "released, caches run: true"}))
		w.Expect(w.in.Status().Running).To(BeFalse())
	})
}
