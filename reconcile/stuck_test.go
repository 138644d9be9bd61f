package reconcile_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/reconcile"
)

// deafTo is a reconciler that does not listen to its context.
func deafTo(release chan struct{}) reconcFn {
	return func(_ context.Context, r request) (reconcile.Result, error) {
		if r.Key.Name == "deaf" {
			<-release
		}
		return nothing, nil
	}
}

func TestAReconcileThatIgnoresItsTimeoutIsNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("deaf", "b")
		release := make(chan struct{})
		c := w.made(&reconcile.Options{TurnTimeout: time.Minute}, deafTo(release))
		stop := w.startRun(c.Run)
		pass(59 * time.Second)
		w.Expect(c.Stats().Stuck).To(BeZero())
		pass(7 * time.Second)
		w.Expect(c.Stats().Stuck).To(Equal(1))
		w.Expect(c.Stats().Failing).To(Equal(1))
		w.Expect(keysOf(c)["deaf"].Failure).To(ContainSubstring("has not returned"))
		w.Expect(strings.Join(w.logged(), "\n")).To(And(
			ContainSubstring("has not returned"), ContainSubstring(`"name"="deaf"`), ContainSubstring("deafTo"),
			Not(ContainSubstring("synctest.Wait"))), "the stack of that goroutine, and no other")
		close(release)
		w.turns()
		w.Expect(c.Stats().Stuck).To(BeZero())
		w.Expect(c.Stats().Failing).To(BeZero())
		w.Expect(stop()).To(Succeed())
	})
}

func TestAReconcileThatIgnoresTheStopIsNamedByRun(t *testing.T) {
	for name, o := range map[string]*reconcile.Options{
		"plain": {Grace: time.Minute}, "shards": {Grace: time.Minute, Shards: allShards{}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create("deaf")
				release := make(chan struct{})
				stop := w.start(o, deafTo(release))
				pass(time.Second)
				began := time.Now()
				err := stop()
				w.Expect(err).To(MatchError(And(ContainSubstring(`controller "test"`), ContainSubstring("d/deaf"))))
				w.Expect(err).To(MatchError(reconcile.ErrStopping))
				w.Expect(time.Since(began)).To(BeNumerically("~", time.Minute, 10*time.Second))
				w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("deafTo"))
				close(release)
				synctest.Wait()
			})
		})
	}
}

// The Lease is another's only when the reconcile has returned, or the process has ended.
func TestAReconcileThatIgnoresTheStopKeepsTheLeadership(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("deaf")
		release := make(chan struct{})
		leadership := terms{make(chan bool)}
		c := w.made(&reconcile.Options{Leader: leadership}, deafTo(release))
		stop := w.startRun(c.Run)
		leadership.change <- true
		pass(time.Second)
		w.Expect(stop()).To(MatchError(ContainSubstring("d/deaf")))
		pass(time.Hour)
		w.Expect(c.Phase()).To(Equal(reconcile.Stopping), "the function that leads has not returned")
		close(release)
		synctest.Wait()
		w.Expect(c.Phase()).To(Equal(reconcile.Stopped))
	})
}

func TestAMapperHasAContextAndATimeout(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("a")
		calls := 0
		stop := w.start(&reconcile.Options{TurnTimeout: time.Minute, Triggers: []reconcile.Trigger{
			reconcile.Mapped(w.in, func(ctx context.Context, _, _ *configMap) ([]reconcile.Key, error) {
				if calls++; calls > 1 {
					return []reconcile.Key{key("mapped")}, nil
				}
				<-ctx.Done()
				w.Expect(context.Cause(ctx)).To(MatchError(reconcile.ErrTurnTimeout))
				return nil, ctx.Err()
			}),
		}}, w.recorder())
		pass(59 * time.Second)
		w.Expect(w.turns()).To(Equal([]string{"object a"}))
		pass(2 * time.Second)
		w.Expect(w.turns()).To(Equal([]string{"gone mapped"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAMapperThatHangsStopsNeitherTheOthersNorTheStop(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("a", "b")
		release := make(chan struct{})
		c := w.made(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.Mapped(w.in, func(_ context.Context, _, after *configMap) ([]reconcile.Key, error) {
				if after.Name == "a" {
					<-release
				}
				return []reconcile.Key{key("for-" + after.Name)}, nil
			}),
		}}, w.recorder())
		stop := w.startRun(c.Run)
		pass(2 * time.Second)
		w.Expect(w.turns()).To(ConsistOf("object a", "object b", "gone for-b"))
		pass(3 * time.Minute)
		w.Expect(c.Stats().Stuck).To(Equal(1))
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("has not returned"))
		began := time.Now()
		w.Expect(stop()).To(MatchError(And(ContainSubstring("configmaps"), ContainSubstring("d/a"))))
		w.Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second), "the grace is for reconciles")
		close(release)
		synctest.Wait()
	})
}

func TestGoexitInAMapperIsRetried(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create("a")
		calls := 0
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.Mapped(w.in, func(context.Context, *configMap, *configMap) ([]reconcile.Key, error) {
				if calls++; calls < 3 {
					runtime.Goexit()
				}
				return []reconcile.Key{key("mapped")}, nil
			}),
		}}, w.recorder())
		pass(time.Minute)
		w.Expect(w.turns()).To(ConsistOf("object a", "gone mapped"))
		w.Expect(stop()).To(Succeed())
	})
}
