package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/queue"
)

// Nothing that happens once per event or turn allocates, with lanes, groups,
// causes and counters on.
func TestNothingAllocatesPerTurn(t *testing.T) {
	keys := make([]types.NamespacedName, 1000)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: fmt.Sprintf("ns-%d", i%10), Name: fmt.Sprintf("name-%d", i)}
	}
	ctx := t.Context()
	for name, turn := range map[string]func(q *queue.Queue[types.NamespacedName], k types.NamespacedName){
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
			"": nil, " in groups": func(k types.NamespacedName) string { return k.Namespace },
		} {
			t.Run(name+grouping, func(t *testing.T) {
				g := NewWithT(t)
				q, err := queue.New(&queue.Options[types.NamespacedName]{Group: group})
				g.Expect(err).NotTo(HaveOccurred())
				q.Add(types.NamespacedName{Name: "warm"})
				for range 2000 { // stale timers and free lists reach their size
					turn(q, keys[0])
				}
				i := 0
				allocs := testing.AllocsPerRun(2000, func() {
					turn(q, keys[i%len(keys)])
					i++
				})
				g.Expect(allocs).To(BeZero())
			})
		}
	}
}

// Sleeping in Get, and being woken by an addition or a timer, does not allocate
// either.
func TestWaitersDoNotAllocate(t *testing.T) {
	g := NewWithT(t)
	q, err := queue.New[string](nil)
	g.Expect(err).NotTo(HaveOccurred())
	got := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for {
			item, err := q.Get(ctx)
			if err != nil {
				close(got)
				return
			}
			item.Done()
			got <- struct{}{}
		}
	}()
	allocs := testing.AllocsPerRun(500, func() {
		q.Add("a")
		<-got
		q.AddWithOptions("b", queue.AddOptions{After: time.Microsecond})
		<-got
	})
	g.Expect(allocs).To(BeZero())
	cancel()
	<-got
}
