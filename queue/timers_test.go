package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

func TestTimers(t *testing.T) {
	addition := func(d time.Duration) queue.AddOptions { return queue.AddOptions{After: d} }
	for name, f := range map[string]func(b *fixture){
		"a delayed key comes at its time": func(b *fixture) {
			b.AddWithOptions("a", addition(time.Second))
			b.Expect(b.Len()).To(BeZero())
			b.expectNext("a", time.Second).Done()
			b.expectNothing()
		},
		"a timer does not delay a key that waits": func(b *fixture) {
			b.Add("a")
			b.AddWithOptions("a", addition(time.Second))
			b.expectNext("a", 0).Done()
			b.expectNothing()
		},
		"timers of several keys come in order": func(b *fixture) {
			b.AddWithOptions("c", addition(3*time.Second))
			b.AddWithOptions("a", addition(time.Second))
			b.AddWithOptions("b", addition(2*time.Second))
			b.AddWithOptions("b2", addition(2*time.Second))
			b.expectNext("a", time.Second).Done()
			b.expectNext("b", 2*time.Second).Done()
			b.expectNext("b2", 2*time.Second).Done()
			b.expectNext("c", 3*time.Second).Done()
		},
		"a timer that is moved away and back is one timer": func(b *fixture) {
			b.AddWithOptions("a", addition(time.Minute))
			b.AddWithOptions("a", queue.AddOptions{After: time.Hour, Replace: true})
			b.AddWithOptions("a", queue.AddOptions{After: time.Minute, Replace: true})
			b.Expect(b.Entries(10)).To(HaveLen(1))
			b.Expect(b.Stats().Delayed).To(Equal(1))
			b.expectNext("a", time.Minute).Done()
			b.expectNothing()
			b.Expect(b.Stats().Delayed).To(BeZero())
		},
		"replacing does not delay a key that waits": func(b *fixture) {
			b.Add("a")
			b.AddWithOptions("a", queue.AddOptions{After: time.Minute, Replace: true})
			b.expectNext("a", 0).Done()
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
			b.expectNext("a", 3*time.Second).Done()
		},
		"a timer that ends while the key is held leads to another dispatch": func(b *fixture) {
			b.Add("a")
			held := b.take()
			b.AddWithOptions("a", addition(time.Second))
			b.wait(time.Minute)
			held.Done()
			b.expectNext("a", time.Minute).Done()
			b.expectNothing()
		},
		"After looks again later, or earlier if the key is added": func(b *fixture) {
			b.Add("a")
			b.take().After(time.Minute)
			b.expectNext("a", time.Minute).After(time.Minute)
			b.wait(time.Second)
			b.Add("a")
			b.expectNext("a", time.Minute+time.Second).Done()
			b.expectNothing()
		},
		"After without delay looks again at once": func(b *fixture) {
			b.Add("a")
			b.take().After(-time.Second)
			b.expectNext("a", 0).Done()
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
			b.expectNext("early", 2*time.Second).Done()
			b.expectNext("late", time.Hour).Done()
		},
		"a worker that sleeps without a timer notices the first one": func(b *fixture) {
			go func() {
				b.wait(time.Second)
				b.AddWithOptions("a", addition(time.Second))
			}()
			b.expectNext("a", 2*time.Second).Done()
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, nil, f) })
	}
}

func TestTimersThatMoveOftenCostNoMemory(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		before := heap()
		for range 300_000 {
			b.AddWithOptions("a", queue.AddOptions{After: time.Hour, Replace: true})
			b.AddWithOptions("a", queue.AddOptions{After: 2 * time.Hour, Replace: true})
		}
		const room = 1 << 20
		b.Expect(heap()).To(BeNumerically("<", before+room))
		b.Expect(b.Stats().Delayed).To(Equal(1))
		b.expectNext("a", 2*time.Hour).Done()
		b.expectNothing()
	})
}

func TestTimersKeepTheirOrderWhenMostAreCancelled(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		const keys = 2000
		order := rand.New(rand.NewPCG(1, 1)).Perm(keys)
		for _, i := range order {
			b.AddWithOptions(fmt.Sprint(i), queue.AddOptions{After: time.Duration(1+i) * time.Second})
		}
		for _, i := range order {
			if i%4 != 3 { // the first of all is cancelled, too
				b.Expect(b.Cancel(fmt.Sprint(i))).To(BeTrue())
			}
		}
		for i := 3; i < keys; i += 4 {
			b.expectNext(fmt.Sprint(i), time.Duration(1+i)*time.Second).Done()
		}
		b.expectNothing()
	})
}

func TestDelayedKeysAreCountedExactlyAfterABurst(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		const burst = 5000 // more than an empty heap keeps room for
		for i := range burst {
			b.AddWithOptions(fmt.Sprint(i), queue.AddOptions{After: time.Duration(1+i) * time.Millisecond})
		}
		b.Expect(b.Cancel(fmt.Sprint(burst - 1))).To(BeTrue())
		b.wait(time.Minute)
		b.Expect(b.Len()).To(Equal(burst - 1))
		b.Expect(b.Stats().Delayed).To(BeZero())
	})
}

func TestSeveralWaitersShareTheTimers(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		type dispatch struct {
			key string
			at  time.Duration
		}
		dispatches := make(chan dispatch, 100)
		ctx, cancel := context.WithCancel(b.t.Context())
		for range 4 {
			go func() {
				for {
					item, err := b.Get(ctx)
					if err != nil {
						return
					}
					dispatches <- dispatch{item.Key(), b.now()}
					b.wait(10 * time.Second) // a long item: another worker must keep watch
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
		close(dispatches)
		var all []dispatch
		for x := range dispatches {
			all = append(all, x)
		}
		b.Expect(all).To(Equal([]dispatch{
			{"a", time.Second}, {"b", 2 * time.Second}, {"c", 3 * time.Second}, {"d", 4 * time.Second},
		}))
	})
}
