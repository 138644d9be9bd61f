package reconcile_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// deafTo is a reconciler that ignores its context.
func deafTo(release chan struct{}) reconcFn {
	return func(_ context.Context, r request) (reconcile.Result, error) {
		if r.Key.Name == "deaf" {
			<-release
		}
		return nothing, nil
	}
}

func TestAReconcileThatIgnoresItsTimeoutIsNamed(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("deaf", "b")
		release := make(chan struct{})
		c := w.made(&reconcile.Options{ReconcileTimeout: time.Minute}, deafTo(release))
		stop := w.startRun(c.Run)
		pass(59 * time.Second)
		w.Expect(c.Stats().Stuck).To(BeZero())
		pass(7 * time.Second)
		w.Expect(c.Stats().Stuck).To(Equal(1))
		w.Expect(c.Stats().Overran).To(BeEquivalentTo(1), "one log line so far")
		w.Expect(c.Stats().Failing).To(Equal(1))
		w.Expect(keysOf(c)["deaf"].Failure).To(ContainSubstring("has not returned"))
		w.Expect(strings.Join(w.logged(), "\n")).To(And(
			ContainSubstring("has not returned"), ContainSubstring(`"name"="deaf"`), ContainSubstring("deafTo"),
			Not(ContainSubstring("synctest.Wait"))), "the stack of that goroutine, and no other")
		for reports, after := range []time.Duration{3 * time.Second, 2 * time.Second, 10 * time.Second, 20 * time.Second} {
			w.Expect(c.Stats().Overran).To(BeEquivalentTo(max(reports, 1)), "whenever it has taken twice as long")
			pass(after)
		}
		close(release)
		w.reconciled()
		w.Expect(c.Stats().Stuck).To(BeZero())
		w.Expect(c.Stats().Failing).To(BeZero())
		w.Expect(stop()).To(Succeed())
	})
}

// A reconcile that begins while the first one is running has its own timeout.
func TestEachReconcileThatIgnoresItsTimeoutIsNamed(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("deaf")
		release := make(chan struct{})
		c := w.made(&reconcile.Options{ReconcileTimeout: time.Minute, Workers: 2},
			func(context.Context, request) (reconcile.Result, error) { <-release; return nothing, nil })
		stop := w.startRun(c.Run)
		pass(20 * time.Second)
		w.create("deaf too")
		pass(46 * time.Second)
		w.Expect(c.Stats().Stuck).To(Equal(1))
		pass(20 * time.Second)
		w.Expect(c.Stats().Stuck).To(Equal(2))
		close(release)
		w.Expect(stop()).To(Succeed())
	})
}

func TestAReconcileThatIgnoresTheStopIsNamedByRun(t *testing.T) {
	for name, o := range map[string]*reconcile.Options{
		"plain": {Grace: time.Minute}, "shards": {Grace: time.Minute, Shards: allShards{}},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.create("deaf")
				release := make(chan struct{})
				stop := w.start(o, deafTo(release))
				pass(time.Second)
				began := time.Now()
				err := stop()
				w.Expect(err).To(MatchError(And(ContainSubstring(`controller "test"`), ContainSubstring("d/deaf"))))
				w.Expect(err).To(MatchError(reconcile.ErrGraceExpired))
				w.Expect(time.Since(began)).To(BeNumerically("~", time.Minute, 10*time.Second))
				w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("deafTo"))
				close(release)
				synctest.Wait()
			})
		})
	}
}

// Another replica gets the Lease only when the reconcile has returned, or the
// process has ended.
func TestAReconcileThatIgnoresTheStopKeepsTheLeadership(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("deaf")
		release := make(chan struct{})
		leadership := terms{make(chan bool)}
		c := w.made(&reconcile.Options{Leader: leadership}, deafTo(release))
		stop := w.startRun(c.Run)
		leadership.change <- true
		pass(time.Second)
		w.Expect(stop()).To(MatchError(ContainSubstring("d/deaf")))
		pass(time.Hour)
		w.Expect(c.Phase()).To(Equal(inspect.Stopping), "the function that leads has not returned")
		close(release)
		synctest.Wait()
		w.Expect(c.Phase()).To(Equal(inspect.Stopped))
	})
}

func TestAMapperHasAContextAndATimeout(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		calls := 0
		stop := w.start(&reconcile.Options{ReconcileTimeout: time.Minute, Triggers: []reconcile.Trigger{
			reconcile.Mapped(w.in, func(ctx context.Context, _, _ *configMap) ([]reconcile.Key, error) {
				if calls++; calls > 1 {
					return []reconcile.Key{key("mapped")}, nil
				}
				<-ctx.Done()
				w.Expect(context.Cause(ctx)).To(MatchError(reconcile.ErrReconcileTimeout))
				return nil, ctx.Err()
			}),
		}}, w.recorder())
		pass(59 * time.Second)
		w.Expect(w.reconciled()).To(Equal([]string{"object a"}))
		pass(2 * time.Second)
		w.Expect(w.reconciled()).To(Equal([]string{"gone mapped"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAMapperThatHangsStopsNeitherTheOthersNorTheStop(t *testing.T) {
	inFixture(t, func(w *fixture) {
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
		w.Expect(w.reconciled()).To(ConsistOf("object a", "object b", "gone for-b"))
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

// The goroutine of a call that hangs has made calls before.
func TestAMapperThatHangsLaterKeepsNoOtherCallWaiting(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		release := make(chan struct{})
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.Mapped(w.in, func(_ context.Context, _, after *configMap) ([]reconcile.Key, error) {
				if after.Name == "hangs" {
					<-release
				}
				return []reconcile.Key{key("for-" + after.Name)}, nil
			}),
		}}, w.recorder())
		pass(time.Minute)
		w.Expect(w.reconciled()).To(ConsistOf("object a", "gone for-a"))
		w.create("hangs")
		pass(time.Millisecond)
		w.create("b")
		pass(2 * time.Second)
		w.Expect(w.reconciled()).To(ConsistOf("object hangs", "object b", "gone for-b"))
		close(release)
		pass(time.Second)
		w.Expect(w.reconciled()).To(ConsistOf("gone for-hangs"))
		w.Expect(stop()).To(Succeed())
	})
}

// Otherwise each slow call would add a goroutine.
func TestAfterASlowMapperOneIsCalledAtATime(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("slow")
		var now, most atomic.Int32
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.Mapped(w.in, func(_ context.Context, _, after *configMap) ([]reconcile.Key, error) {
				if after.Name == "slow" {
					<-time.After(3 * time.Second)
					return nil, nil
				}
				most.Store(max(most.Load(), now.Add(1)))
				<-time.After(time.Millisecond)
				now.Add(-1)
				return nil, nil
			}),
		}}, w.recorder())
		pass(time.Minute)
		w.create("a", "b", "c")
		pass(time.Minute)
		w.Expect(most.Load()).To(BeEquivalentTo(1))
		w.Expect(stop()).To(Succeed())
	})
}

func TestGoexitInAMapperIsRetried(t *testing.T) {
	inFixture(t, func(w *fixture) {
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
		w.Expect(w.reconciled()).To(ConsistOf("object a", "gone mapped"))
		w.Expect(stop()).To(Succeed())
	})
}

// What ends with the reconcile belongs to it: the hook that Options.Around
// returns is watched, too.
func TestAHookThatHangsIsNamed(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		release := make(chan struct{})
		c := w.made(&reconcile.Options{
			ReconcileTimeout: time.Minute, Grace: time.Minute,
			Around: func(context.Context, reconcile.Key) (context.Context, func(inspect.Attempt, error)) {
				return nil, func(inspect.Attempt, error) { <-release }
			},
		}, w.recorder())
		stop := w.startRun(c.Run)
		pass(2 * time.Minute)
		w.Expect(c.Stats().Stuck).To(Equal(1))
		w.Expect(c.Stats().Failing).To(BeZero(), "the key has been reconciled")
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring(`Options.Around after the reconcile of \"d/a\"`))
		began := time.Now()
		w.Expect(stop()).To(MatchError(ContainSubstring(`Options.Around after the reconcile of "d/a"`)))
		w.Expect(time.Since(began)).To(BeNumerically("<", 2*time.Minute))
		close(release)
		synctest.Wait()
		w.Expect(c.Stats().Stuck).To(BeZero())
	})
}

func TestAListOfKnownNamesThatHangsHoldsUpNoStop(t *testing.T) {
	inFixture(t, func(w *fixture) {
		release := make(chan struct{})
		c := w.made(&reconcile.Options{Known: names.Func(func(context.Context) ([]names.Name, error) {
			<-release
			return nil, nil
		})}, w.recorder())
		stop := w.startRun(c.Run)
		pass(time.Hour)
		w.Expect(strings.Join(w.logged(), "\n")).NotTo(ContainSubstring("has not returned"), "Sweep.Ready says it")
		began := time.Now()
		w.Expect(stop()).To(MatchError(ContainSubstring("the sweep of reconcile.Options.Known")))
		w.Expect(time.Since(began)).To(BeNumerically("<", 10*time.Second))
		close(release)
		synctest.Wait()
	})
}

func TestGoexitInAListOfKnownNamesFailsTheSweep(t *testing.T) {
	inFixture(t, func(w *fixture) {
		calls := 0
		stop := w.start(&reconcile.Options{Known: names.Func(func(context.Context) ([]names.Name, error) {
			if calls++; calls < 3 {
				runtime.Goexit()
			}
			return []names.Name{{Key: key("lost")}}, nil
		})}, w.recorder())
		pass(time.Hour)
		w.Expect(w.reconciled()).To(ContainElement("gone lost"))
		w.Expect(stop()).To(Succeed())
	})
}

// Run ends when it is told to. Until then a reconcile that ignores the loss of
// the leadership, or the move of its slot, is a fault of its key.
func TestAReconcileThatIgnoresALossDoesNotEndRun(t *testing.T) {
	for name, loss := range map[string]func(o *reconcile.Options) (take, lose func()){
		"leader": func(o *reconcile.Options) (take, lose func()) {
			l := terms{make(chan bool)}
			o.Leader = l
			return func() { l.change <- true }, func() { l.change <- false }
		},
		"slot": func(o *reconcile.Options) (take, lose func()) {
			p := newParts()
			o.Shards = p
			return func() { p.take('d') }, func() { p.leave('d', errMoves) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.create("deaf")
				release, ended, o := make(chan struct{}), false, &reconcile.Options{}
				take, lose := loss(o)
				c := w.made(o, deafTo(release))
				stop := w.startRun(func(ctx context.Context) error {
					defer func() { ended = true }()
					return c.Run(ctx)
				})
				w.reconciled()
				take()
				pass(time.Second)
				lose()
				pass(time.Hour)
				w.Expect(ended).To(BeFalse())
				w.Expect(c.Stats().Stuck).To(Equal(1), "it is logged, counted and shown")
				w.Expect(stop()).To(MatchError(ContainSubstring("d/deaf")))
				close(release)
				synctest.Wait()
			})
		})
	}
}

// Four objects of forty whose reconcile ignores its context do not keep the
// other objects waiting.
func TestAWorkerThatIsHeldIsReplaced(t *testing.T) {
	for name, o := range map[string]*reconcile.Options{"plain": {}, "shards": {Shards: allShards{}}} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.create("deaf-1", "deaf-2", "deaf-3", "deaf-4")
				release := make(chan struct{})
				var most, now atomic.Int32
				c := w.made(o, func(_ context.Context, r request) (reconcile.Result, error) {
					if strings.HasPrefix(r.Key.Name, "deaf") {
						<-release
						return nothing, nil
					}
					most.Store(max(most.Load(), now.Add(1)))
					<-time.After(time.Second)
					now.Add(-1)
					return nothing, nil
				})
				stop := w.startRun(c.Run)
				pass(3 * time.Minute)
				w.Expect(c.Stats().Stuck).To(Equal(4))
				w.create("a", "b", "c", "d", "e", "f")
				pass(3 * time.Second)
				w.Expect(c.Stats().Active).To(Equal(4), "the others have been reconciled")
				w.Expect(c.Healthy()).To(Succeed())
				w.Expect(c.Problems()).To(ContainElement(And(HaveField("Cause", "stuck call"),
					HaveField("Reason", ContainSubstring(`reconcile of "d/deaf-1"`)))))

				close(release)
				pass(time.Minute)
				w.Expect(c.Problems()).To(BeEmpty())
				most.Store(0)
				w.create("a-1", "b-1", "c-1", "d-1", "e-1", "f-1")
				pass(time.Minute)
				w.Expect(most.Load()).To(BeEquivalentTo(4), "there are as many workers as before")
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

// What they hold is not known, so that there is a bound.
func TestWhenAllReplacementsAreHeldOnlyARestartHelps(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("deaf-1", "deaf-2", "deaf-3", "deaf-4", "deaf-5")
		release := make(chan struct{})
		c := w.made(&reconcile.Options{Workers: 2}, func(context.Context, request) (reconcile.Result, error) {
			<-release
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		pass(time.Hour)
		w.Expect(c.Stats().Active).To(Equal(4))
		w.Expect(c.Healthy()).To(MatchError(ContainSubstring("all 4 workers have been held")))
		close(release)
		pass(time.Second)
		w.Expect(c.Healthy()).To(Succeed())
		w.Expect(stop()).To(Succeed())
	})
}

// The mapper asks an outside system, which does not answer for the objects of
// one tenant.
func TestMappersThatHangForOneNamespaceDoNotDelayAnother(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.in = informer.For(w.client.CoreV1().ConfigMaps(""), nil)
		for n := range 300 {
			busy := configMapNamed(fmt.Sprintf("c%03d", n))
			busy.Namespace = "busy"
			_, err := w.client.CoreV1().ConfigMaps("busy").Create(t.Context(), busy, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		}
		mapped := make(chan time.Time, 1)
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.Mapped(w.in, func(ctx context.Context, _, after *configMap) ([]reconcile.Key, error) {
				if after.Namespace == "busy" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				mapped <- time.Now()
				return nil, nil
			}),
		}}, w.recorder())
		pass(5 * time.Second)
		began := time.Now()
		w.create("quick")
		w.Expect((<-mapped).Sub(began)).To(BeNumerically("<=", 2*time.Second))
		w.Expect(stop()).To(Succeed())
	})
}

// Namespaces do not help for the objects of a kind without namespaces.
func TestMappersThatHangDelayTheOthersOnlyForAWhile(t *testing.T) {
	inFixture(t, func(w *fixture) {
		for n := range 300 {
			w.create(fmt.Sprintf("c%03d", n))
		}
		mapped := make(chan time.Time, 1)
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.Mapped(w.in, func(ctx context.Context, _, after *configMap) ([]reconcile.Key, error) {
				if after.Name != "quick" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				mapped <- time.Now()
				return nil, nil
			}),
		}}, w.recorder())
		pass(time.Second)
		began := time.Now()
		w.create("quick")
		w.Expect((<-mapped).Sub(began)).To(BeNumerically("<", time.Minute))
		w.Expect(stop()).To(Succeed())
	})
}
