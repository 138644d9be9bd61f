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
