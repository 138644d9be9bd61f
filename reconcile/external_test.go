package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

func TestExternalKeysFromAChannelAreReconciled(t *testing.T) {
	inFixture(t, func(w *fixture) {
		hooks := make(chan reconcile.Key)
		c := w.made(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.External("webhook", hooks)}},
			func(ctx context.Context, r request) (reconcile.Result, error) {
				w.ran(r.Key.Name)
				reconcileLogger(ctx).Info("hello")
				return nothing, nil
			})
		stop := w.startRun(c.Run)
		hooks <- key("a")
		w.Expect(w.reconciled()).To(Equal([]string{"a"}))
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("webhook: enqueued d/a"))
		w.Expect(c.Status(0).Triggers[1]).To(Equal(inspect.TriggerStatus{Informer: "webhook", Type: "external"}))
		w.Expect(inspect.Informers(c)).To(HaveLen(1))
		hooks <- key("b")
		close(hooks)
		w.Expect(w.reconciled()).To(Equal([]string{"b"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAnExternalFunctionIsCalledAgainWhenItFails(t *testing.T) {
	inFixture(t, func(w *fixture) {
		calls := 0
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.External("cloud", func(ctx context.Context, enqueue func(reconcile.Key) error) error {
				calls++
				if err := enqueue(key(fmt.Sprint(calls))); err != nil {
					return err
				}
				switch calls {
				case 1:
					return errBoom
				case 2:
					panic("boom")
				case 3:
					runtime.Goexit()
				}
				<-ctx.Done()
				return ctx.Err()
			}),
		}}, w.recorder())
		pass(time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"gone 1", "gone 2", "gone 3", "gone 4"}))
		w.Expect(strings.Count(strings.Join(w.logged(), "\n"), "external trigger failed")).To(Equal(3))
		w.Expect(stop()).To(Succeed())
	})
}

func TestTheCallsOfAnExternalFunctionThatFailsBecomeRare(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var gaps []time.Duration
		last := time.Now()
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.External("cloud", func(context.Context, func(reconcile.Key) error) error {
				gaps = append(gaps, time.Since(last))
				last = time.Now()
				return errBoom
			}),
		}}, w.recorder())
		pass(10 * time.Minute)
		w.Expect(gaps[:4]).To(Equal([]time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}))
		w.Expect(gaps[12:]).To(And(Not(BeEmpty()), HaveEach(time.Minute)))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAnExternalFunctionThatReturnsNilHasNotFailed(t *testing.T) {
	inFixture(t, func(w *fixture) {
		calls := 0
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.External("cloud", func(context.Context, func(reconcile.Key) error) error { calls++; return nil }),
		}}, w.recorder())
		pass(time.Hour)
		w.Expect(calls).To(Equal(1))
		w.Expect(w.logged()).NotTo(ContainElement(ContainSubstring("external trigger failed")))
		w.Expect(stop()).To(Succeed())
	})
}

func TestExternalKeysWaitForRoom(t *testing.T) {
	inFixture(t, func(w *fixture) {
		release := make(chan struct{})
		enqueued := 0
		var last error
		stop := w.start(&reconcile.Options{Workers: 1, Triggers: []reconcile.Trigger{
			reconcile.External("flood", func(_ context.Context, enqueue func(reconcile.Key) error) error {
				for i := range 5000 {
					if last = enqueue(key(fmt.Sprint(i))); last != nil {
						return last
					}
					_ = enqueue(key("0")) // waits already, or again
					enqueued++
				}
				return nil
			}),
		}}, func(_ context.Context, r request) (reconcile.Result, error) {
			<-release
			return nothing, nil
		})
		w.reconciled()
		w.Expect(enqueued).To(BeNumerically("~", 1000, 1), "one is with the worker")
		for range 10 {
			release <- struct{}{}
		}
		w.reconciled()
		w.Expect(enqueued).To(BeNumerically("~", 1010, 2))
		go func() {
			for range release {
			}
		}()
		go func() {
			<-time.After(time.Second)
			close(release)
		}()
		w.Expect(stop()).To(Succeed())
		w.Expect(last).To(Or(BeNil(), MatchError(context.Canceled)))
	})
}

func TestExternalKeysComeAfterTheFirstLists(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.External("timer", func(_ context.Context, enqueue func(reconcile.Key) error) error {
				w.ran(fmt.Sprint("synced ", w.in.Status().Synced))
				return nil
			}),
		}}, func(context.Context, request) (reconcile.Result, error) { return nothing, nil })
		w.Expect(w.reconciled()).To(Equal([]string{"synced true"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAnExternalFunctionThatHangsHoldsUpNoStop(t *testing.T) {
	inFixture(t, func(w *fixture) {
		release := make(chan struct{})
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.External("deaf", func(context.Context, func(reconcile.Key) error) error {
				<-release
				return nil
			}),
		}}, w.recorder())
		pass(time.Hour)
		w.Expect(strings.Join(w.logged(), "\n")).NotTo(ContainSubstring("has not returned"))
		w.Expect(stop()).To(MatchError(ContainSubstring(`the external trigger "deaf"`)))
		close(release)
		w.reconciled()
	})
}

func TestExternalNeedsANameAndASource(t *testing.T) {
	g := NewWithT(t)
	var none chan reconcile.Key
	g.Expect(newWith(maps(g, "https://hub"), reconcile.External("", none))).To(MatchError(And(
		ContainSubstring("Options.Triggers[0]"), ContainSubstring("is external: must have a name"), ContainSubstring("must have a channel or a function"))))
	var closed <-chan reconcile.Key = make(chan reconcile.Key)
	g.Expect(newWith(maps(g, "https://hub"), reconcile.External("x", closed))).To(Succeed())
}

func TestMappedNeedsAFunction(t *testing.T) {
	g := NewWithT(t)
	in := maps(g, "https://hub")
	err := newWith(in, reconcile.Mapped(in, nil))
	g.Expect(err).To(MatchError(And(ContainSubstring("Options.Triggers[0]"), ContainSubstring("is mapped: must have a function"))))
}

func TestEnqueueReconcilesAtOnceAndEndsABackOff(t *testing.T) {
	inFixture(t, func(w *fixture) {
		failing := errors.New("not now")
		c := w.made(nil, func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.Name)
			return reconcile.After(time.Hour), failing
		})
		c.Enqueue(key("a"), key("b"))
		stop := w.startRun(c.Run)
		w.Expect(w.reconciled()).To(ConsistOf("a", "b"))
		failing = nil
		c.Enqueue(key("a"))
		w.Expect(w.reconciled()).To(Equal([]string{"a"}))
		w.Expect(stop()).To(Succeed())
		c.Enqueue(key("a"))
	})
}

func TestAnExternalFunctionIsNotCalledAgainAfterTheStop(t *testing.T) {
	inFixture(t, func(w *fixture) {
		calls := 0
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.External("cloud", func(context.Context, func(reconcile.Key) error) error {
				calls++
				return errBoom
			}),
		}}, w.recorder())
		pass(50 * time.Millisecond)
		w.Expect(stop()).To(Succeed())
		w.Expect(calls).To(Equal(1))
	})
}

func TestAnExternalFunctionIsNotCalledBeforeTheCachesAreFilled(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
			return true, nil, errBoom
		})
		called := false
		stop := w.start(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.External("cloud", func(context.Context, func(reconcile.Key) error) error {
				called = true
				return nil
			}),
		}}, w.recorder())
		pass(time.Minute)
		w.Expect(stop()).To(MatchError(ContainSubstring("waiting for the cache")))
		w.Expect(called).To(BeFalse())
	})
}
