package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile"
)

func (w *fixture) controller(name string) *reconcile.Controller {
	w.t.Helper()
	c, err := reconcile.New(name, w.in, reconcile.Func[*configMap](
		func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(name + " " + r.Key.Name)
			return nothing, nil
		}), nil)
	w.Expect(err).NotTo(HaveOccurred())
	w.controllers = append(w.controllers, c)
	return c
}

func TestRunIsOneLine(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		stop := w.startRun(func(ctx context.Context) error {
			return reconcile.Run(ctx, "test", w.in, reconcile.Func[*configMap](
				func(_ context.Context, r request) (reconcile.Result, error) {
					w.ran(r.Key.Name)
					return nothing, nil
				}))
		})
		w.Expect(w.reconciled()).To(Equal([]string{"a"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestRunAllSharesInformers(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var lists atomic.Int32
		w.client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists.Add(1)
			return false, nil, nil
		})
		w.create("a")
		stop := w.startRun(func(ctx context.Context) error {
			return reconcile.RunAll(ctx, w.controller("one"), w.controller("two"))
		})
		w.Expect(w.reconciled()).To(ConsistOf("one a", "two a"))
		w.Expect(lists.Load()).To(BeEquivalentTo(1))
		w.Expect(stop()).To(Succeed())
	})
}

func TestRunAllRefusesTwoOfOneName(t *testing.T) {
	inFixture(t, func(w *fixture) {
		err := reconcile.RunAll(w.context(), w.controller("one"), w.controller("one"))
		w.Expect(err).To(MatchError(ContainSubstring(`two controllers are named "one"`)))
	})
}

func TestRunAllNamesTheCacheThatNeverSynced(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no role"))
		})
		stop := w.startRun(func(ctx context.Context) error {
			return reconcile.RunAll(ctx, w.controller("one"), w.controller("two"))
		})
		pass(time.Minute)
		w.Expect(stop()).To(MatchError(And(ContainSubstring(`"one"`), ContainSubstring(`"two"`), ContainSubstring("no role"))))
	})
}

func TestRunReturnsWhatNewFindsWrong(t *testing.T) {
	err := reconcile.Run[*configMap](t.Context(), "", nil, nil)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("name is empty")))
}

// Metrics of a controller that has stopped show no key that waits.
func TestAStoppedControllerHasNoKeysLeft(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) { return reconcile.After(time.Hour), nil })
		stop := w.startRun(c.Run)
		pass(time.Second)
		w.Expect(c.QueueStats().Delayed).To(Equal(1))
		w.Expect(stop()).To(Succeed())
		w.Expect(c.QueueStats().Delayed).To(BeZero())
	})
}

// A variable of a pointer type stays nil where a program makes its elector only
// with a flag. In an interface it is not nil, and would panic at the first use.
func TestAnOptionWithANilPointerInItIsNamed(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var elector *leader.Elector
		var shards *shard.Shards
		var recorder *events.FakeRecorder
		for field, o := range map[string]*reconcile.Options{
			"Leader": {Leader: elector}, "Shards": {Shards: shards}, "Events": {Events: recorder},
		} {
			_, err := reconcile.New("a", w.in, reconcile.Func[*configMap](
				func(context.Context, request) (reconcile.Result, error) { return reconcile.Result{}, nil }), o)
			w.Expect(err).To(MatchError(ContainSubstring("reconcile.Options." + field + " is an interface with a nil pointer in it")))
		}
	})
}
