package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// neverElected is a leader whose election no controller has joined.
type neverElected struct{ reconcile.Leader }

func (neverElected) String() string { return "no replica leads" }
func (neverElected) Ready() error   { return apierrors.NewServiceUnavailable("no replica leads yet") }
func (neverElected) Healthy() error { return nil }

// optional is a controller of Secrets, a kind that the server has once it is
// served.
func (w *fixture) optional(o *reconcile.Options) (c *reconcile.Controller, serve func()) {
	var served atomic.Bool
	w.client.PrependReactor("*", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !served.Load(), nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	c, err := reconcile.New("optional", informer.For(w.client.CoreV1().Secrets("d"), nil), reconcile.Func[*corev1.Secret](
		func(_ context.Context, r reconcile.Request[*corev1.Secret]) (reconcile.Result, error) {
			w.ran("optional " + r.Key.Name)
			return nothing, nil
		}), o)
	w.Expect(err).NotTo(HaveOccurred())
	w.controllers = append(w.controllers, c)
	return c, func() { served.Store(true) }
}

func TestAnOptionalControllerStartsWhenItsKindIsServed(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		w.Expect(w.client.Tracker().Add(&corev1.Secret{ObjectMeta: configMapNamed("s").ObjectMeta})).To(Succeed())
		home := w.controller("home")
		c, serve := w.optional(&reconcile.Options{Optional: true})
		stop := w.startRun(func(ctx context.Context) error { return reconcile.RunAll(ctx, home, c) })
		pass(time.Hour)
		w.Expect(w.reconciled()).To(Equal([]string{"home a"}), "the other one works meanwhile")
		w.Expect(c.Phase()).To(Equal(inspect.Syncing))
		w.Expect(c.Status(0).Optional).To(BeTrue())
		w.Expect(c.Problems()).To(ConsistOf(And(
			HaveField("Check", "controller/optional"), HaveField("Cause", "waiting"),
			HaveField("Reason", HavePrefix("it waits for the cache of secrets: ")))))
		w.Expect(c.Informers()[0].Optional).To(BeTrue())
		w.Expect(c.Informers()[0].Resource).To(Equal(schema.GroupResource{Resource: "secrets"}))
		serve()
		pass(time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"optional s"}))
		w.Expect(c.Phase()).To(Equal(inspect.Working))
		w.Expect(c.Problems()).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}

func TestAnOptionalControllerThatNeverStartedStopsWithoutAnError(t *testing.T) {
	inFixture(t, func(w *fixture) {
		c, _ := w.optional(&reconcile.Options{Optional: true})
		stop := w.startRun(c.Run)
		pass(time.Minute)
		w.Expect(stop()).To(Succeed())
	})
	inFixture(t, func(w *fixture) {
		c, _ := w.optional(nil)
		stop := w.startRun(c.Run)
		pass(time.Minute)
		w.Expect(stop()).To(MatchError(ContainSubstring("waiting for the cache of secrets")))
		w.Expect(c.Problems()).To(BeEmpty(), "it is no mild one: the process is not ready")
	})
}

// A controller that waits has not joined the election, so it is not the reason
// why no replica leads.
func TestAnOptionalControllerThatWaitsNeedsNoLeader(t *testing.T) {
	inFixture(t, func(w *fixture) {
		c, _ := w.optional(&reconcile.Options{Optional: true, Leader: neverElected{}})
		required, _ := w.optional(&reconcile.Options{Leader: neverElected{}})
		stop := w.startRun(c.Run)
		synctest.Wait()
		w.Expect(c.LeaderReady()).To(Succeed())
		w.Expect(required.LeaderReady()).NotTo(Succeed())
		w.Expect(stop()).To(Succeed())
	})
}

// A cache that one controller cannot do without is not optional.
func TestAnInformerIsOptionalIfAllItsControllersAre(t *testing.T) {
	inFixture(t, func(w *fixture) {
		for _, c := range []struct{ first, second, both bool }{
			{true, true, true}, {true, false, false}, {false, true, false},
		} {
			made := func(name string, optional bool) *reconcile.Controller {
				c, err := reconcile.New(name, w.in, reconcile.Func[*configMap](
					func(context.Context, request) (reconcile.Result, error) { return nothing, nil }),
					&reconcile.Options{Optional: optional})
				w.Expect(err).NotTo(HaveOccurred())
				return c
			}
			all := inspect.Informers(made("one", c.first), made("two", c.second))
			w.Expect(all).To(HaveLen(1))
			w.Expect(all[0].Optional).To(Equal(c.both))
		}
	})
}
