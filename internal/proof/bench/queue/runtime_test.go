package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat/homeostat/queue"
	adapter "github.com/homeostat/homeostat/queue/workqueue"
)

// A controller of controller-runtime runs on our queue: first reconciles,
// retries with back-off, second looks, and the end.
func TestControllerRuntimeRunsOnOurQueue(t *testing.T) {
	var made *queue.Queue[reconcile.Request]
	newQueue := func(
		name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
	) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		q, err := queue.New(&queue.Options[reconcile.Request]{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		made = q
		return adapter.New(q, &adapter.Options[reconcile.Request]{RateLimiter: limiter})
	}

	requests := map[string]reconcile.Request{}
	for _, name := range []string{"plain", "fails twice", "looks again"} {
		requests[name] = reconcile.Request{NamespacedName: key{Namespace: "default", Name: name}}
	}
	var mu sync.Mutex
	reconciles := map[string]int{}
	finished := make(chan struct{})
	reconciler := reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		reconciles[r.Name]++
		if reconciles["plain"] == 1 && reconciles["fails twice"] == 3 && reconciles["looks again"] == 2 {
			close(finished)
		}
		switch {
		case r.Name == "fails twice" && reconciles[r.Name] < 3:
			return reconcile.Result{}, errors.New("not yet")
		case r.Name == "looks again" && reconciles[r.Name] < 2:
			return reconcile.Result{RequeueAfter: time.Millisecond}, nil
		}
		return reconcile.Result{}, nil
	})

	skip := true
	c, err := controller.NewUnmanaged("on-our-queue", controller.Options{
		Reconciler: reconciler, NewQueue: newQueue, MaxConcurrentReconciles: 4,
		SkipNameValidation: &skip, Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	feed := source.Func(func(
		_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request],
	) error {
		for _, r := range requests {
			q.Add(r)
			q.Add(r)
		}
		return nil
	})
	if err := c.Watch(feed); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	select {
	case <-finished:
	case <-ctx.Done():
		t.Fatalf("reconciles so far: %v", reconciles)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := made.Get(t.Context()); !errors.Is(err, queue.ErrStopped) {
		t.Errorf("after the controller has ended, Get returns %v, want %v", err, queue.ErrStopped)
	}
	if left := made.Entries(10); len(left) > 0 {
		t.Errorf("left in the queue: %v", left)
	}
}
