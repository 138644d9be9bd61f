package queue_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/queue"
)

// Nothing that happens once per event or dispatch allocates, with lanes,
// groups, causes and counters on.
func TestNothingAllocatesPerDispatch(t *testing.T) {
	keys := make([]types.NamespacedName, 1000)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", i%10), Name: fmt.Sprintf("name-%d", i)}
	}
	ctx := t.Context()
	for name, cycle := range map[string]func(q *queue.Queue[types.NamespacedName], k types.NamespacedName){
		"add, get, done": func(q *queue.Queue[types.NamespacedName], k types.NamespacedName) {
			q.AddWithOptions(k, queue.AddOptions{Lane: queue.Background, Cause: queue.Cause{
				Trigger: "pods", Namespace: k.Namespace, Name: k.Name, OldVersion: "12", NewVersion: "13",
			}})
			item, _ := q.Get(ctx)
			item.Done()
		},
		"a cause of another object": func(q *queue.Queue[types.NamespacedName], k types.NamespacedName) {
			q.AddWithOptions(k, queue.AddOptions{Cause: queue.Cause{Trigger: "pods", Name: "other", NewVersion: "x"}})
			item, _ := q.Get(ctx)
			item.Done()
		},
		"add many times": func(q *queue.Queue[types.NamespacedName], k types.NamespacedName) {
			for range 3 {
				q.Add(k)
				q.AddWithOptions(k, queue.AddOptions{After: time.Second})
			}
			item, _ := q.Get(ctx)
			q.Add(k)
			item.Done()
			item, _ = q.Get(ctx)
			item.Done()
		},
		"retry, reset": func(q *queue.Queue[types.NamespacedName], k types.NamespacedName) {
			q.Add(k)
			item, _ := q.Get(ctx)
			item.Retry()
			q.AddWithOptions(k, queue.AddOptions{ResetBackoff: true})
			item, _ = q.Get(ctx)
			item.Done()
		},
		"hold, release": func(q *queue.Queue[types.NamespacedName], k types.NamespacedName) {
			q.Add(k)
			item, _ := q.Get(ctx)
			item.Hold(time.Minute)
			item.After(0)
			q.Release(k)
			item, _ = q.Get(ctx)
			item.Done()
		},
		"set and cancel timers": func(q *queue.Queue[types.NamespacedName], k types.NamespacedName) {
			q.AddWithOptions(k, queue.AddOptions{After: time.Hour})
			q.Cancel(k)
		},
		"look at the numbers": func(q *queue.Queue[types.NamespacedName], _ types.NamespacedName) {
			_ = q.Stats()
			_ = q.Len()
		},
	} {
		for grouping, group := range map[string]func(types.NamespacedName) string{
			"": nil, "/in groups": func(k types.NamespacedName) string { return k.Namespace },
		} {
			t.Run(name+grouping, func(t *testing.T) {
				g := NewWithT(t)
				q, err := queue.New(&queue.Options[types.NamespacedName]{Group: group})
				g.Expect(err).NotTo(HaveOccurred())
				q.Add(types.NamespacedName{Name: "warm"})
				for range 2000 { // stale timers and free lists reach their size
					cycle(q, keys[0])
				}
				i := 0
				allocs := testing.AllocsPerRun(2000, func() {
					cycle(q, keys[i%len(keys)])
					i++
				})
				g.Expect(allocs).To(BeZero())
			})
		}
	}
}

// Waiting in Get, and being woken by an addition or a timer, does not allocate
// either.
func TestWaitersDoNotAllocate(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		got := make(chan struct{})
		ctx, cancel := context.WithCancel(b.t.Context())
		go func() {
			defer close(got)
			for {
				item, err := b.Get(ctx)
				if err != nil {
					return
				}
				item.Done()
				got <- struct{}{}
			}
		}()
		allocs := testing.AllocsPerRun(500, func() {
			synctest.Wait() // the caller of Get waits
			b.Add("a")
			<-got
			b.AddWithOptions("b", queue.AddOptions{After: time.Second})
			<-got
		})
		b.Expect(allocs).To(BeZero())
		cancel()
		<-got
	})
}

// A queue that is never empty needs no more memory for keys that are added and
// done.
func TestKeysThatAreAddedAndDoneLeaveNothing(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		b.AddWithOptions("stays", queue.AddOptions{After: time.Hour, Cause: queue.Cause{Trigger: "pods"}})
		before := heap()
		for i := range 50_000 {
			key := fmt.Sprint(i)
			b.AddWithOptions(key, queue.AddOptions{Cause: queue.Cause{Trigger: "pods", Name: key}})
			b.take().Done()
		}
		const room = 1 << 20
		b.Expect(heap()).To(BeNumerically("<", before+room))
	})
}

// A waiting key, with a cause, takes few bytes.
func TestAWaitingKeyTakesFewBytes(t *testing.T) {
	const keys, goal = 1 << 16, 120
	names := make([]types.NamespacedName, keys)
	for i := range names {
		names[i] = types.NamespacedName{Namespace: "default", Name: fmt.Sprint(i)}
	}
	q, err := queue.New[types.NamespacedName](nil)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	before := heap()
	for _, k := range names {
		q.AddWithOptions(k, queue.AddOptions{Cause: queue.Cause{
			Trigger: "pods", Type: "updated", Namespace: k.Namespace, Name: k.Name, OldVersion: "1234567", NewVersion: "1234568",
		}})
	}
	g.Expect((heap() - before) / keys).To(BeNumerically("<=", goal))
	runtime.KeepAlive(q)
	runtime.KeepAlive(names)
}
