package reconcile_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	runtimeobject "k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// explosive is an error whose Error panics if it is a nil pointer.
type explosive struct{ text string }

func (e *explosive) Error() string { return e.text }

func TestATypedNilErrorFailsItsKey(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b")
		c := w.made(&reconcile.Options{Workers: 1}, func(_ context.Context, r request) (reconcile.Result, error) {
			var none *explosive
			if r.Key.Name == "a" {
				return nothing, none
			}
			w.ran(r.Key.Name)
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(Equal([]string{"b"}))
		w.Expect(keysOf(c)["a"].Failure).To(And(ContainSubstring("*reconcile_test.explosive"), ContainSubstring("return nil")))
		w.Expect(stop()).To(Succeed())
	})
}

// Terminal marks any error that it is given as one that a retry cannot fix.
func TestATerminalTypedNilErrorIsNotRetried(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		attempts := 0
		c := w.made(&reconcile.Options{Workers: 1}, func(context.Context, request) (reconcile.Result, error) {
			attempts++
			var none *explosive
			return nothing, reconcile.Terminal(none)
		})
		stop := w.startRun(c.Run)
		pass(time.Hour)
		w.Expect(attempts).To(Equal(1))
		w.Expect(keysOf(c)["a"].Failure).To(And(ContainSubstring("*reconcile_test.explosive"), ContainSubstring("return nil")))
		w.Expect(stop()).To(Succeed())
	})
}

func TestGoexitInGroupConcernsItsKeyOnly(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.panics = true
		w.create("a", "b")
		c := w.made(&reconcile.Options{Workers: 1, Group: func(k reconcile.Key) string {
			if k.Name == "a" {
				runtime.Goexit()
			}
			return k.Name
		}}, w.recorder())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(ContainElements("object a", "object b"))
		w.create("c")
		w.Expect(w.reconciled()).To(ContainElement("object c"), "the watch goes on")
		w.Expect(c.Stats().Panics).To(BeNumerically(">", 0))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAStopDoesNotWaitForTheNextCallOfAListerThatEndedItsGoroutine(t *testing.T) {
	inFixture(t, func(w *fixture) {
		stop := w.start(&reconcile.Options{Known: names.Func(func(context.Context) ([]names.Name, error) {
			runtime.Goexit()
			return nil, nil
		})}, w.recorder())
		pass(time.Second)
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("sweep for orphans failed"))
		began := time.Now()
		w.Expect(stop()).To(Succeed())
		w.Expect(time.Since(began)).To(BeZero())
	})
}

func TestEachPanicOfTheReconcilerIsCounted(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.panics = true
		w.create("a", "b")
		var calls atomic.Int32
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) {
			if calls.Add(1) <= 3 {
				panic("not yet")
			}
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		pass(time.Minute)
		w.Expect(c.Stats().Panics).To(BeEquivalentTo(3))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAPanicInGroupConcernsItsKeyOnly(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.panics = true
		w.create("a", "b")
		c := w.made(&reconcile.Options{Workers: 1, Group: func(k reconcile.Key) string {
			if k.Name == "a" {
				panic("no such group")
			}
			return k.Name
		}}, w.recorder())
		stop := w.startRun(c.Run)
		// The slot's keys are all enqueued when it comes, so a key may be
		// reconciled once more.
		w.Expect(w.reconciled()).To(And(ContainElements("object a", "object b"), HaveEach(Not(ContainSubstring("bad")))))
		w.Expect(c.Stats().Panics).To(BeNumerically(">", 0))
		w.Expect(stop()).To(Succeed())
	})
}

// badSlots panics on key "bad", as a Slot may that looks up the owner of a key.
type badSlots struct{ allShards }

func (badSlots) Slot(k reconcile.Key) int {
	if k.Name == "bad" {
		panic("no such owner")
	}
	return 0
}

func TestAPanicInSlotConcernsItsKeyOnly(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.panics = true
		w.create("a", "bad")
		c := w.made(&reconcile.Options{Workers: 1, Shards: badSlots{}}, w.recorder())
		stop := w.startRun(c.Run)
		w.create("b")
		// The slot's keys are all enqueued when it comes, so a key may be
		// reconciled once more.
		w.Expect(w.reconciled()).To(And(ContainElements("object a", "object b"), HaveEach(Not(ContainSubstring("bad")))))
		w.Expect(c.Stats().Panics).To(BeNumerically(">", 0))
		w.Expect(stop()).To(Succeed())
	})
}

// A fake client may answer with a nil object.
func TestAReportOfNoObjectFailsItsKey(t *testing.T) {
	for name, report := range map[string]func(context.Context){
		"wrote a nil pointer":   func(ctx context.Context) { reconcile.Wrote(ctx, (*configMap)(nil)) },
		"deleted a nil pointer": func(ctx context.Context) { reconcile.Deleted(ctx, (*configMap)(nil)) },
		"deleted nil":           func(ctx context.Context) { reconcile.Deleted(ctx, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.panics = true
				w.create("a", "b")
				c := w.made(&reconcile.Options{Workers: 1}, func(ctx context.Context, r request) (reconcile.Result, error) {
					if r.Key.Name == "a" {
						report(ctx)
					}
					w.ran(r.Key.Name)
					return nothing, nil
				})
				stop := w.startRun(c.Run)
				w.Expect(w.reconciled()).To(Equal([]string{"b"}))
				w.Expect(keysOf(c)["a"].Failure).To(ContainSubstring("panic: "))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

type panickyRecorder struct{}

func (panickyRecorder) Eventf(_, _ runtimeobject.Object, _, _, _, _ string, _ ...any) {
	panic("no such sink")
}

func TestAPanicInARecorderOfEventsIsLogged(t *testing.T) {
	inServedFixture(t, func(w *fixture, maps, _ typedcorev1.ConfigMapInterface) {
		runs := 0
		stop := w.start(&reconcile.Options{Events: panickyRecorder{}}, func(ctx context.Context, r request) (reconcile.Result, error) {
			object, _ := r.Object()
			runs++
			return nothing, set(ctx, maps, "test", object, "last", strconv.Itoa(runs))
		})
		pass(time.Hour)
		w.Expect(runs).To(BeNumerically(">", 15), "it goes on")
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("Options.Events panicked"))
		w.Expect(stop()).To(Succeed())
	})
}

// recorderFunc is an events.EventRecorder that ignores the event.
type recorderFunc func()

func (f recorderFunc) Eventf(_, _ runtimeobject.Object, _, _, _, _ string, _ ...any) { f() }

func TestARecorderOfEventsThatEndsItsGoroutineCostsNoRetry(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		ended := 0
		stop := w.start(&reconcile.Options{Events: recorderFunc(func() { ended++; runtime.Goexit() })},
			func(context.Context, request) (reconcile.Result, error) {
				w.ran("a")
				return nothing, errForbidden("patch", "pods", "", `in the namespace "d"`)
			})
		pass(10 * time.Minute)
		w.Expect(ended).To(Equal(1))
		w.reconciled()
		pass(time.Hour)
		w.Expect(w.reconciled()).NotTo(BeEmpty())
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("Options.Events panicked"))
		w.Expect(stop()).To(Succeed())
	})
}

// silentLeader is a Leader that leads and does not say so.
type silentLeader struct{}

func (silentLeader) Run(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }

func (silentLeader) String() string { panic("it is asked") }
func (silentLeader) Ready() error   { return nil }
func (silentLeader) Healthy() error { return nil }

func TestALeaderThatPanicsWhenItIsAskedIsShownAsUnknown(t *testing.T) {
	inFixture(t, func(w *fixture) {
		c := w.made(&reconcile.Options{Leader: silentLeader{}}, w.recorder())
		w.Expect(c.Status(0)).To(And(HaveField("Elects", true), HaveField("Name", c.Name()),
			HaveField("LeaderName", ContainSubstring("panic: it is asked"))))
	})
}

func TestAPanicInTheScopeOfASweepFailsTheSweep(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		c := w.made(&reconcile.Options{Known: knownKeys("lost"), Sweep: &names.Options{
			Scope: func(names.Name) bool { panic("no such zone") },
		}}, w.recorder())
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(Equal([]string{"object a"}))
		w.Expect(c.Sweep().Ready()).To(MatchError(ContainSubstring("no such zone")))
		w.Expect(stop()).To(Succeed())
	})
}

// A require or a t.FailNow in a reconciler ends its goroutine without a panic.
func TestGoexitCostsNeitherWorkerNorKey(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.panics = true
		w.create("a", "b", "c")
		var exits atomic.Int32
		c := w.made(&reconcile.Options{Workers: 2}, func(_ context.Context, r request) (reconcile.Result, error) {
			if r.Key.Name != "c" && exits.Add(1) <= 6 {
				runtime.Goexit()
			}
			w.ran(r.Key.Name)
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		pass(time.Minute)
		w.Expect(w.reconciled()).To(ConsistOf("a", "b", "c"))
		w.Expect(c.Stats().Panics).To(BeEquivalentTo(6))
		w.Expect(c.Stats().Active).To(BeZero())
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("runtime.Goexit"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestGoexitCostsNoWorkerOfAShard(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.panics = true
		w.create("a")
		exits := 0
		stop := w.start(&reconcile.Options{Workers: 1, Shards: allShards{}}, func(context.Context, request) (reconcile.Result, error) {
			if exits++; exits < 3 {
				runtime.Goexit()
			}
			w.ran("a")
			return nothing, nil
		})
		pass(time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"a"}))
		w.Expect(stop()).To(Succeed())
	})
}

// allShards gives the only slot to this replica.
type allShards struct{}

func (allShards) Slot(reconcile.Key) int { return 0 }
func (allShards) Run(ctx context.Context, fn func(ctx context.Context, slot int) error) error {
	return fn(ctx, 0)
}

func TestRunAllRefusesNoController(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.Expect(reconcile.RunAll(w.context(), w.controller("one"), nil)).To(MatchError(ContainSubstring("controllers[1] is nil")))
	})
}

func TestAnErrorThatPanicsLaterFailsItsKey(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) {
			var none *explosive
			return nothing, errors.Join(errBoom, none)
		})
		stop := w.startRun(c.Run)
		w.reconciled()
		w.Expect(keysOf(c)["a"].Failure).NotTo(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

// The reconciler has cancelled a context of its own.
func TestACancelledContextIsAFailureLikeOthers(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		stop := w.start(nil, func(context.Context, request) (reconcile.Result, error) { return nothing, context.Canceled })
		w.reconciled()
		w.Expect(strings.Join(w.logged(), "\n")).To(And(
			ContainSubstring("reconcile failed, retrying"), Not(ContainSubstring("cut off"))))
		w.Expect(stop()).To(Succeed())
	})
}
