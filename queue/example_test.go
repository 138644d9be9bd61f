package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeostat/homeostat/queue"
)

// A worker takes keys until the queue is drained.
func Example() {
	q, err := queue.New[string](nil)
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"default/web", "default/db", "default/web"} {
		q.Add(key)
	}
	q.Drain()

	for {
		item, err := q.Get(context.Background())
		if errors.Is(err, queue.ErrStopped) {
			break
		}
		fmt.Println(item.Key())
		item.Done()
	}
	// Output:
	// default/web
	// default/db
}

func ExampleItem_Retry() {
	q, err := queue.New(&queue.Options[string]{
		Backoff: queue.Backoff{Base: time.Millisecond, Cap: time.Second},
	})
	if err != nil {
		panic(err)
	}
	q.Add("default/web")
	for {
		item, err := q.Get(context.Background())
		if err != nil {
			panic(err)
		}
		if item.Attempt() < 3 {
			item.Retry()
			continue
		}
		fmt.Println("attempt", item.Attempt())
		item.Done()
		break
	}
	// Output: attempt 3
}

func ExampleQueue_AddWithOptions() {
	q, err := queue.New[string](nil)
	if err != nil {
		panic(err)
	}
	// The first list is less urgent than what changes now.
	q.AddWithOptions("default/old", queue.AddOptions{Lane: queue.Background})
	q.AddWithOptions("default/web", queue.AddOptions{
		// The spec has changed, so the reason for earlier failures may be gone.
		ResetBackoff: true,
		Cause: queue.Cause{
			Trigger: "deployments", Namespace: "default", Name: "web",
			Type: "updated", OldVersion: "41", NewVersion: "57",
		},
	})

	item, err := q.Get(context.Background())
	if err != nil {
		panic(err)
	}
	defer item.Done()
	for _, c := range item.Causes() {
		fmt.Printf("%s: %s was %s by %s\n", item.Key(), c.Name, c.Type, c.Trigger)
	}
	// Output: default/web: web was updated by deployments
}

// The worker has written an object, and wants its cache to have seen that
// before it looks at the key again.
func ExampleItem_Hold() {
	q, err := queue.New[string](nil)
	if err != nil {
		panic(err)
	}
	q.Add("default/web")
	item, err := q.Get(context.Background())
	if err != nil {
		panic(err)
	}
	item.Hold(10 * time.Second)
	item.Done()

	q.Add("default/web")
	fmt.Println("waiting:", q.Len())
	q.Release("default/web") // the cache has seen it
	fmt.Println("waiting:", q.Len())
	// Output:
	// waiting: 0
	// waiting: 1
}

func ExampleQueue_Entries() {
	q, err := queue.New[string](nil)
	if err != nil {
		panic(err)
	}
	q.Add("default/web")
	q.AddWithOptions("default/db", queue.AddOptions{After: time.Hour})
	for _, e := range q.Entries(10) {
		fmt.Println(e.Key, "is", e.State)
	}
	// Output:
	// default/db is delayed
	// default/web is waiting
}

// take returns the next item of a queue that has one.
func take(q *queue.Queue[string]) queue.Item[string] {
	item, err := q.Get(context.Background())
	if err != nil {
		panic(err)
	}
	return item
}

// The key is dispatched again in an hour, or as soon as it is added.
func ExampleItem_After() {
	q, err := queue.New[string](nil)
	if err != nil {
		panic(err)
	}
	q.Add("default/web")
	take(q).After(time.Hour)
	fmt.Println("waiting:", q.Len())
	q.Add("default/web")
	fmt.Println("waiting:", q.Len())
	// Output:
	// waiting: 0
	// waiting: 1
}

// A server has said when to retry: its delay is neither shortened nor made
// random.
func ExampleItem_RetryAfter() {
	q, err := queue.New[string](nil)
	if err != nil {
		panic(err)
	}
	q.Add("default/web")
	take(q).RetryAfter(time.Hour)
	s := q.Stats()
	fmt.Println("failing:", s.Failing, "delayed:", s.Delayed)
	// Output: failing: 1 delayed: 1
}

// The failures of a key are forgotten, because their cause has been repaired.
func ExampleQueue_Forget() {
	q, err := queue.New(&queue.Options[string]{Backoff: queue.Backoff{Base: time.Millisecond, Cap: time.Second}})
	if err != nil {
		panic(err)
	}
	q.Add("default/web")
	take(q).Retry()
	q.Forget("default/web")
	fmt.Println("attempt", take(q).Attempt())
	// Output: attempt 1
}

func ExampleQueue_Cancel() {
	q, err := queue.New[string](nil)
	if err != nil {
		panic(err)
	}
	q.AddWithOptions("default/web", queue.AddOptions{After: time.Hour})
	fmt.Println(q.Cancel("default/web"), q.Cancel("default/web"))
	// Output: true false
}

func ExampleQueue_Stats() {
	q, err := queue.New(&queue.Options[string]{Name: "rollout"})
	if err != nil {
		panic(err)
	}
	q.Add("default/web")
	q.Add("default/web")
	s := q.Stats()
	fmt.Println(q.Name()+":", s.Added, "additions,", s.Merged, "merged")
	// Output: rollout: 2 additions, 1 merged
}

// Drain lets the workers finish what waits; Stop drops it.
func ExampleQueue_Stop() {
	q, err := queue.New[string](nil)
	if err != nil {
		panic(err)
	}
	q.Add("default/web")
	q.Stop()
	_, err = q.Get(context.Background())
	fmt.Println(errors.Is(err, queue.ErrStopped))
	// Output: true
}
