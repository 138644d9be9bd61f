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
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/reconcile"
)

// ending lets all watches of ConfigMaps end after a minute, and answers all
// requests with the error that is stored, if there is one.
func (w *fixture) ending(answer *atomic.Pointer[error]) {
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := answer.Load(); err != nil {
			return true, nil, *err
		}
		return false, nil, nil
	}
	w.client.PrependReactor("list", "configmaps", refuse)
	w.client.PrependWatchReactor("configmaps", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if _, _, err := refuse(a); err != nil {
			return true, nil, err
		}
		one := watch.NewFake()
		time.AfterFunc(time.Minute, one.Stop)
		return true, one, nil
	})
}

func TestCredentialsThatHaveEndedAreHealedByARestartOnly(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		var answer atomic.Pointer[error]
		w.ending(&answer)
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) { return nothing, nil })
		optional := w.made(&reconcile.Options{Optional: true}, func(context.Context, request) (reconcile.Result, error) {
			return nothing, nil
		})
		stop, stopOptional := w.startRun(c.Run), w.startRun(optional.Run)
		pass(10 * time.Minute)
		w.Expect(c.Healthy()).To(Succeed())

		away := errors.New("the server is away")
		answer.Store(&away)
		pass(20 * time.Minute)
		w.Expect(c.Healthy()).To(Succeed(), "a restart does not help")
		w.Expect(c.Informers()[0].Problems).NotTo(BeEmpty())

		unauthorized := error(apierrors.NewUnauthorized("Unauthorized"))
		answer.Store(&unauthorized)
		pass(5 * time.Minute)
		w.Expect(c.Healthy()).To(Succeed(), "a new token may come yet")
		pass(5 * time.Minute) // the back-off is a minute at most
		w.Expect(c.Healthy()).To(MatchError(ContainSubstring("answered 401 to the informer of configmaps")))
		w.Expect(optional.Healthy()).To(Succeed(), "no other controller is restarted for it")

		answer.Store(nil)
		pass(5 * time.Minute)
		w.Expect(c.Healthy()).To(Succeed())
		w.Expect(c.Informers()[0].Problems).To(BeEmpty())
		w.Expect(stopOptional()).To(Succeed())
		w.Expect(stop()).To(Succeed())
	})
}
