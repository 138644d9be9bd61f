package controllerruntime_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat/homeostat/controllerruntime"
	"github.com/homeostat/homeostat/queue"
)

func TestAControllerRunsOnTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var queues controllerruntime.Queues[reconcile.Request]
		var mu sync.Mutex
		called := map[string]int{}
		c, err := controller.NewUnmanaged("secrets", controller.Options{
			SkipNameValidation: new(true), NewQueue: queues.New,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute),
			Reconciler: reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				if called[r.Name]++; r.Name == "fails" && called[r.Name] < 4 {
					return reconcile.Result{}, errors.New("not yet")
				}
				return reconcile.Result{RequeueAfter: 24 * time.Hour}, nil
			}),
		})
		g.Expect(err).NotTo(HaveOccurred())
		events := make(chan event.GenericEvent, 10)
		g.Expect(c.Watch(source.Channel(events, &handler.EnqueueRequestForObject{}))).To(Succeed())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		for _, name := range []string{"works", "fails"} {
			s := secret(name, "")
			events <- event.GenericEvent{Object: s}
		}
		synctest.Wait()
		g.Expect(queues.Stats()).To(HaveKeyWithValue("secrets", HaveField("Delayed", 2)))
		<-time.After(time.Second + 2*time.Second + 4*time.Second + time.Millisecond)
		mu.Lock()
		g.Expect(called).To(Equal(map[string]int{"works": 1, "fails": 4}), "by the delays of the limiter")
		mu.Unlock()
		g.Expect(queues.Entries(10)["secrets"]).To(HaveLen(2), "both come again in a day")
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

func TestWrongOptionsOfQueuesPanic(t *testing.T) {
	queues := controllerruntime.Queues[corev1.ObjectReference]{
		Options: queue.Options[corev1.ObjectReference]{MinInterval: -time.Second},
	}
	NewWithT(t).Expect(func() { queues.New("a", nil) }).To(PanicWith(MatchError(ContainSubstring("MinInterval"))))
}
