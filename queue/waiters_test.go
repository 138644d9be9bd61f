package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

// late is a context that has ended, and whose sleepers have not run yet.
type late struct {
	context.Context

	done  chan struct{}
	ended atomic.Bool
}

func (l *late) Done() <-chan struct{} { return l.done }

func (l *late) Err() error {
	if l.ended.Load() {
		return context.Canceled
	}
	return nil
}

func TestWaiters(t *testing.T) {
	for name, f := range map[string]func(b *fixture){
		"another keeps watch when the one who did gives up": func(b *fixture) {
			short, cancel := context.WithTimeout(b.t.Context(), time.Second)
			defer cancel()
			b.AddWithOptions("a", queue.AddOptions{After: time.Minute})
			timed, other := b.asleep(short), b.asleep(b.t.Context())
			b.wait(time.Minute)
			synctest.Wait()
			b.Expect(timed).To(BeClosed())
			b.Expect(other).To(Receive())
		},
		"a key is not lost on one who gives up as it is woken": func(b *fixture) {
			for range 100 {
				ctx, cancel := context.WithCancel(b.t.Context())
				first, last := b.asleep(b.t.Context()), b.asleep(ctx)
				b.Add("a")
				cancel()
				synctest.Wait()
				b.Expect(b.Len()).To(BeZero())
				b.Add("b")
				for _, got := range []<-chan queue.Item[string]{first, last} {
					if item, ok := <-got; ok {
						item.Done()
					}
				}
				for b.Len() > 0 {
					b.take().Done()
				}
			}
		},
		"who is woken after its context ended takes nothing": func(b *fixture) {
			ctx := &late{Context: b.t.Context(), done: make(chan struct{})}
			got := b.asleep(ctx)
			ctx.ended.Store(true)
			b.Add("a")
			synctest.Wait()
			b.Expect(got).To(BeClosed())
			b.Expect(b.Len()).To(Equal(1))
		},
		"each key wakes one": func(b *fixture) {
			first, second, third := b.asleep(b.t.Context()), b.asleep(b.t.Context()), b.asleep(b.t.Context())
			b.AddWithOptions("a", queue.AddOptions{After: time.Second})
			b.AddWithOptions("b", queue.AddOptions{After: time.Second})
			b.Add("c")
			b.wait(2 * time.Second)
			synctest.Wait()
			for _, got := range []<-chan queue.Item[string]{first, second, third} {
				b.Expect(got).To(Receive())
			}
		},
		"a drained queue keeps them while a held key will come again": func(b *fixture) {
			b.Add("a")
			held := b.take()
			b.Add("a")
			got := b.asleep(b.t.Context())
			b.Drain()
			synctest.Wait()
			b.Expect(got).NotTo(BeClosed())
			held.Done()
			synctest.Wait()
			b.Expect(got).To(Receive())
		},
		"a drained queue lets them go when no added key will come": func(b *fixture) {
			b.Add("a")
			held := b.take()
			b.Add("a")
			got, other := b.asleep(b.t.Context()), b.asleep(b.t.Context())
			b.Drain()
			synctest.Wait()
			b.Expect(got).NotTo(BeClosed())
			held.RetryAfter(time.Second)
			synctest.Wait()
			b.Expect(len(got) + len(other)).To(BeZero())
			b.wait(time.Second)
			synctest.Wait()
			if len(other) == 1 {
				got, other = other, got
			}
			b.Expect(other).To(BeClosed()) // though the last key is still held: it cannot be added again
			b.Expect(got).To(Receive())
			b.Expect(got).To(BeClosed())
		},
		"a stopped queue lets them go": func(b *fixture) {
			b.AddWithOptions("a", queue.AddOptions{After: time.Hour})
			timed, other := b.asleep(b.t.Context()), b.asleep(b.t.Context())
			b.Stop()
			synctest.Wait()
			b.Expect(timed).To(BeClosed())
			b.Expect(other).To(BeClosed())
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, nil, f) })
	}
}
