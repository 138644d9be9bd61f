package queue_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

// A fixture is a queue in virtual time.
type fixture struct {
	*WithT
	*queue.Queue[string]
	t     *testing.T
	start time.Time
}

// inVirtualTime runs f in a bubble of virtual time, with a queue.
func inVirtualTime(t *testing.T, o *queue.Options[string], f func(b *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &fixture{WithT: NewWithT(t), t: t, start: time.Now()}
		var err error
		b.Queue, err = queue.New(o)
		b.Expect(err).NotTo(HaveOccurred())
		f(b)
	})
}

// now is how long the bubble has lasted.
func (b *fixture) now() time.Duration { return time.Since(b.start) }

// take waits for the next item, for a day at most.
func (b *fixture) take() queue.Item[string] {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 24*time.Hour)
	defer cancel()
	item, err := b.Get(ctx)
	b.Expect(err).NotTo(HaveOccurred())
	return item
}

// expectTurn takes the next item and wants it to be key, at this time.
func (b *fixture) expectTurn(key string, at time.Duration) queue.Item[string] {
	b.t.Helper()
	item := b.take()
	b.Expect(item.Key()).To(Equal(key))
	b.Expect(b.now()).To(Equal(at))
	return item
}

// expectNothing wants no item for a day.
func (b *fixture) expectNothing() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 24*time.Hour)
	defer cancel()
	_, err := b.Get(ctx)
	b.Expect(err).To(MatchError(context.DeadlineExceeded))
}

// wait lets d pass.
func (b *fixture) wait(d time.Duration) { <-time.After(d) }

func TestTimers(t *testing.T) {
	addition := func(d time.Duration) queue.AddOptions { return queue.AddOptions{After: d} }
	for name, f := range map[string]func(b *fixture){
		"a delayed key comes at its time": func(b *fixture) {
			b.AddWithOptions("a", addition(time.Second))
			b.Expect(b.Len()).To(BeZero())
			b.expectTurn("a", time.Second).Done()
			b.expectNothing()
		},
		"the earliest deadline wins, whichever comes first": func(b *fixture) {
			b.AddWithOptions("a", addition(3*time.Second))
			b.AddWithOptions("a", addition(time.Second))
			b.AddWithOptions("a", addition(2*time.Second))
			b.expectTurn("a", time.Second).Done()
			b.expectNothing()
		},
		"an addition without delay beats a timer": func(b *fixture) {
			b.AddWithOptions("a", addition(time.Second))
			b.Add("a")
			b.expectTurn("a", 0).Done()
			b.expectNothing()
		},
		"a timer does not delay a key that waits": func(b *fixture) {
			b.Add("a")
			b.AddWithOptions("a", addition(time.Second))
			b.expectTurn("a", 0).Done()
			b.expectNothing()
		},
		"timers of several keys come in order": func(b *fixture) {
			b.AddWithOptions("c", addition(3*time.Second))
			b.AddWithOptions("a", addition(time.Second))
			b.AddWithOptions("b", addition(2*time.Second))
			b.AddWithOptions("b2", addition(2*time.Second))
			b.expectTurn("a", time.Second).Done()
			b.expectTurn("b", 2*time.Second).Done()
			b.expectTurn("b2", 2*time.Second).Done()
			b.expectTurn("c", 3*time.Second).Done()
		},
		"a timer can be replaced by a later one": func(b *fixture) {
			b.AddWithOptions("a", addition(time.Second))
			b.AddWithOptions("a", queue.AddOptions{After: time.Minute, Replace: true})
			b.expectTurn("a", time.Minute).Done()
			b.expectNothing()
		},
		"a timer that is moved away and back is one timer": func(b *fixture) {
			b.AddWithOptions("a", addition(time.Minute))
			b.AddWithOptions("a", queue.AddOptions{After: time.Hour, Replace: true})
			b.AddWithOptions("a", queue.AddOptions{After: time.Minute, Replace: true})
			b.Expect(b.Entries(10)).To(HaveLen(1))
			b.Expect(b.Stats().Delayed).To(Equal(1))
			b.expectTurn("a", time.Minute).Done()
			b.expectNothing()
			b.Expect(b.Stats().Delayed).To(BeZero())
		},
		"replacing does not delay a key that waits": func(b *fixture) {
			b.Add("a")
			b.AddWithOptions("a", queue.AddOptions{After: time.Minute, Replace: true})
			b.expectTurn("a", 0).Done()
			b.expectNothing()
		},
		"a timer can be cancelled": func(b *fixture) {
			b.AddWithOptions("a", addition(time.Second))
			b.Expect(b.Cancel("a")).To(BeTrue())
			b.Expect(b.Cancel("a")).To(BeFalse())
			b.expectNothing()
			b.Expect(b.Entries(1)).To(BeEmpty())
		},
		"a key that waits has no timer to cancel": func(b *fixture) {
			b.Add("a")
			b.AddWithOptions("b", addition(time.Second))
			b.wait(time.Second)
			b.Expect(b.Cancel("a")).To(BeFalse())
			b.Expect(b.Len()).To(Equal(2))
			b.Expect(b.Cancel("b")).To(BeFalse())
			b.Expect(b.Cancel("c")).To(BeFalse())
		},
		"a timer can be set and cancelled while the key is held": func(b *fixture) {
			b.Add("a")
			held := b.take()
			b.AddWithOptions("a", addition(time.Second))
			b.Expect(b.Cancel("a")).To(BeTrue())
			held.Done()
			b.expectNothing()
		},
		"a timer set while the key is held counts from then": func(b *fixture) {
			b.Add("a")
			held := b.take()
			b.AddWithOptions("a", addition(3*time.Second))
			b.wait(time.Second)
			held.Done()
			b.expectTurn("a", 3*time.Second).Done()
		},
		"a timer that ends while the key is held leads to another turn": func(b *fixture) {
			b.Add("a")
			held := b.take()
			b.AddWithOptions("a", addition(time.Second))
			b.wait(time.Minute)
			held.Done()
			b.expectTurn("a", time.Minute).Done()
			b.expectNothing()
		},
		"After looks again later, or earlier if the key is added": func(b *fixture) {
			b.Add("a")
			b.take().After(time.Minute)
			b.expectTurn("a", time.Minute).After(time.Minute)
			b.wait(time.Second)
			b.Add("a")
			b.expectTurn("a", time.Minute+time.Second).Done()
			b.expectNothing()
		},
		"After without delay looks again at once": func(b *fixture) {
			b.Add("a")
			b.take().After(-time.Second)
			b.expectTurn("a", 0).Done()
			b.expectNothing()
		},
		"a timer at the end of time does not overflow": func(b *fixture) {
			b.AddWithOptions("a", addition(1<<63-1))
			b.expectNothing()
			b.Expect(b.Entries(1)).To(HaveLen(1))
		},
		"a worker that sleeps towards a timer wakes up for an earlier one": func(b *fixture) {
			b.AddWithOptions("late", addition(time.Hour))
			go func() {
				b.wait(time.Second)
				b.AddWithOptions("early", addition(time.Second))
			}()
			b.expectTurn("early", 2*time.Second).Done()
			b.expectTurn("late", time.Hour).Done()
		},
		"a worker that sleeps without a timer notices the first one": func(b *fixture) {
			go func() {
				b.wait(time.Second)
				b.AddWithOptions("a", addition(time.Second))
			}()
			b.expectTurn("a", 2*time.Second).Done()
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, nil, f) })
	}
}

func TestTimersThatMoveOftenCostNoMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	inVirtualTime(t, nil, func(b *fixture) {
		before := heap()
		for range 300_000 {
			b.AddWithOptions("a", queue.AddOptions{After: time.Hour, Replace: true})
			b.AddWithOptions("a", queue.AddOptions{After: 2 * time.Hour, Replace: true})
		}
		const room = 1 << 20
		b.Expect(heap()).To(BeNumerically("<", before+room))
		b.Expect(b.Stats().Delayed).To(Equal(1))
		b.expectTurn("a", 2*time.Hour).Done()
		b.expectNothing()
	})
}

func TestSeveralSleepersShareTheTimers(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		type turn struct {
			key string
			at  time.Duration
		}
		turns := make(chan turn, 100)
		ctx, cancel := context.WithCancel(b.t.Context())
		for range 4 {
			go func() {
				for {
					item, err := b.Get(ctx)
					if err != nil {
						return
					}
					turns <- turn{item.Key(), b.now()}
					b.wait(10 * time.Second) // a long turn: another worker must keep watch
					item.Done()
				}
			}()
		}
		synctest.Wait()
		for i, key := range []string{"a", "b", "c", "d"} {
			b.AddWithOptions(key, queue.AddOptions{After: time.Duration(i+1) * time.Second})
		}
		b.wait(time.Minute)
		cancel()
		synctest.Wait()
		close(turns)
		var all []turn
		for x := range turns {
			all = append(all, x)
		}
		b.Expect(all).To(Equal([]turn{
			{"a", time.Second}, {"b", 2 * time.Second}, {"c", 3 * time.Second}, {"d", 4 * time.Second},
		}))
	})
}
