package queue_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/queue"
)

// drawing returns options of queues that back off from one to five seconds, of which those that are made in this test
// take the given share.
func drawing(t *testing.T, share float64) *queue.Options[string] {
	t.Helper()
	t.Cleanup(simhook.Use(&simhook.Hooks{Jitter: func() float64 { return 1 - share }}))
	return &queue.Options[string]{Backoff: queue.Backoff{Base: time.Second, Cap: 5 * time.Second}}
}

const status = "a change of the status"

func statusOnly() queue.AddOptions {
	return queue.AddOptions{Cause: queue.Cause{Trigger: status}}
}

func TestBackoff(t *testing.T) {
	for name, f := range map[string]func(b *fixture){
		"a failed key rests, twice as long each time, up to the cap": func(b *fixture) {
			b.Add("a")
			at := time.Duration(0)
			for i, d := range []time.Duration{0, 1, 2, 4, 5, 5, 5} {
				at += d * time.Second
				item := b.expectTurn("a", at)
				b.Expect(item.Attempt()).To(Equal(i + 1))
				item.Retry()
			}
		},
		"success forgets the failures": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.expectTurn("a", time.Second).Retry()
			b.expectTurn("a", 3*time.Second).Done()
			b.Add("a")
			item := b.take()
			b.Expect(item.Attempt()).To(Equal(1))
			item.Retry()
			b.expectTurn("a", 4*time.Second).After(time.Second)
			item = b.expectTurn("a", 5*time.Second)
			b.Expect(item.Attempt()).To(Equal(1))
			item.Done()
		},
		"an addition neither breaks through a back-off nor lengthens it": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.take().Retry()
			for range 100 {
				b.AddWithOptions("a", statusOnly())
				b.AddWithOptions("a", queue.AddOptions{After: time.Millisecond})
			}
			item := b.expectTurn("a", 3*time.Second)
			b.Expect(item.Attempt()).To(Equal(3))
			item.Retry()
			b.expectTurn("a", 7*time.Second).Done()
			b.expectNothing()
		},
		"an addition while the key is held does not break through either": func(b *fixture) {
			b.Add("a")
			item := b.take()
			b.AddWithOptions("a", statusOnly())
			item.Retry()
			b.expectTurn("a", time.Second).Done()
			b.expectNothing()
		},
		"an addition with Reset breaks through and forgets the failures": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.take().Retry()
			b.wait(time.Second / 2)
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
			item := b.expectTurn("a", 1500*time.Millisecond)
			b.Expect(item.Attempt()).To(Equal(1))
			item.Retry()
			b.expectTurn("a", 2500*time.Millisecond).Done()
			b.expectNothing()
		},
		"a Reset while the key is held makes the failure one of the past": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			item := b.expectTurn("a", time.Second)
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
			item.Retry()
			item = b.expectTurn("a", time.Second)
			b.Expect(item.Attempt()).To(Equal(1))
			item.Retry()
			b.expectTurn("a", 2*time.Second).Done()
			b.expectNothing()
		},
		"a delayed Reset while the key is held does not put off the retry": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			item := b.expectTurn("a", time.Second)
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true, After: time.Hour})
			item.Retry()
			b.expectTurn("a", 2*time.Second).Done()
		},
		"RetryAfter is exact, counts as a failure and is not capped": func(b *fixture) {
			b.Add("a")
			b.take().RetryAfter(17 * time.Second)
			b.AddWithOptions("a", statusOnly())
			item := b.expectTurn("a", 17*time.Second)
			b.Expect(item.Attempt()).To(Equal(2))
			item.RetryAfter(0)
			b.expectTurn("a", 17*time.Second).RetryAfter(time.Hour)
			b.wait(time.Minute)
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
			b.expectTurn("a", time.Minute+17*time.Second).Done()
			b.expectNothing()
		},
		"Forget starts the count anew, and leaves the retry in place": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.take().Retry()
			b.Forget("a")
			b.Forget("unknown")
			item := b.expectTurn("a", 3*time.Second)
			b.Expect(item.Attempt()).To(Equal(1))
			item.Retry()
			b.expectTurn("a", 4*time.Second).Done()
		},
		"a cancelled retry does not come, and the key keeps its failures and its back-off": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.take().Retry()
			b.Expect(b.Cancel("a")).To(BeTrue())
			b.Expect(b.Entries(1)).To(BeEmpty())
			b.Expect(b.Stats()).To(And(HaveField("Failing", 1), HaveField("BackingOff", 0)))
			b.Add("a")
			item := b.expectTurn("a", 3*time.Second)
			b.Expect(item.Attempt()).To(Equal(3))
			item.Retry()
			b.Expect(b.Cancel("a")).To(BeTrue())
			b.expectNothing()
			b.Expect(b.Stats().Failing).To(Equal(1))
			b.Add("a")
			item = b.take()
			b.Expect(item.Attempt()).To(Equal(4))
			item.Done()
		},
		"a cancelled retry and Forget leave nothing of the key": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.Cancel("a")
			b.Forget("a")
			b.Expect(b.Stats()).To(And(HaveField("Failing", 0), HaveField("Delayed", 0)))
			b.Add("a")
			b.Expect(b.expectTurn("a", 0).Attempt()).To(Equal(1))
		},
		"cancelling a retry does not lose what was added while it backed off": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.AddWithOptions("a", statusOnly())
			b.Expect(b.Cancel("a")).To(BeFalse())
			b.expectTurn("a", time.Second).Done()
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, drawing(t, 1), f) })
	}
}

func TestBackoffIsDrawnBetweenNothingAndTheCeiling(t *testing.T) {
	for _, share := range []float64{0.0001, 0.25, 0.5, 1} {
		inVirtualTime(t, drawing(t, share), func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.take().Retry()
			b.take().Done()
			b.Expect(b.now()).To(BeNumerically("~", time.Duration(share*float64(3*time.Second)), 2))
		})
	}
}

func TestBackoffByDefaultIsCappedAtFiveMinutes(t *testing.T) {
	options := drawing(t, 1)
	options.Backoff.Base, options.Backoff.Cap = 0, 0
	inVirtualTime(t, options, func(b *fixture) {
		b.Add("a")
		var longest, first time.Duration
		for i := range 100 {
			before := b.now()
			b.take().Retry()
			if i == 1 {
				first = b.now() - before
			}
			longest = max(longest, b.now()-before)
		}
		b.Expect(first).To(Equal(100 * time.Millisecond))
		b.Expect(longest).To(Equal(5 * time.Minute))
	})
}

func TestKeysThatFailTogetherReturnApart(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		const keys = 100
		for i := range keys {
			b.Add(time.Duration(i).String())
		}
		for range keys {
			b.take().Retry()
		}
		returns := map[time.Duration]bool{}
		for range keys {
			b.take().Done()
			returns[b.now()] = true
		}
		b.Expect(len(returns)).To(BeNumerically(">", keys*9/10))
	})
}

func TestMinInterval(t *testing.T) {
	options := &queue.Options[string]{MinInterval: time.Minute}
	for name, f := range map[string]func(b *fixture){
		"it lies between two hand-outs of a key": func(b *fixture) {
			b.Add("a")
			item := b.take()
			b.wait(10 * time.Second)
			item.Done()
			b.Add("a")
			b.Add("other")
			b.expectTurn("other", 10*time.Second).Done()
			b.expectTurn("a", time.Minute).Done()
			b.expectNothing()
		},
		"not even a Reset shortens it": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
			b.expectTurn("a", time.Minute).Done()
		},
		"it does not delay a key that comes later anyway": func(b *fixture) {
			b.Add("a")
			b.take().After(2 * time.Minute)
			b.expectTurn("a", 2*time.Minute).Done()
			b.wait(time.Hour)
			b.Add("a")
			b.expectTurn("a", time.Hour+2*time.Minute).Done()
		},
		"what is remembered for it is forgotten after it": func(b *fixture) {
			b.Add("a")
			b.take().Done()
			b.Expect(b.Stats().Delayed).To(Equal(1))
			b.expectNothing()
			b.Expect(b.Stats().Delayed).To(BeZero())
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, options, f) })
	}
}

func TestHold(t *testing.T) {
	for name, f := range map[string]func(b *fixture){
		"a held-back key waits until it is released": func(b *fixture) {
			b.Add("a")
			item := b.take()
			item.Hold(10 * time.Second)
			item.Done()
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
			b.Expect(b.Len()).To(BeZero())
			go func() {
				b.wait(3 * time.Second)
				b.Release("a")
			}()
			b.expectTurn("a", 3*time.Second).Done()
			b.expectNothing()
		},
		"a held-back key does not wait longer than the deadline": func(b *fixture) {
			b.Add("a")
			item := b.take()
			b.Add("a")
			item.Hold(10 * time.Second)
			item.Done()
			b.expectTurn("a", 10*time.Second).Done()
		},
		"a key that nothing asks for is not handed out at the deadline": func(b *fixture) {
			b.Add("a")
			item := b.take()
			item.Hold(10 * time.Second)
			item.Done()
			b.expectNothing()
			b.Expect(b.Stats().Delayed).To(BeZero())
		},
		"a release before the end of the item counts": func(b *fixture) {
			b.Add("a")
			item := b.take()
			item.Hold(10 * time.Second)
			b.Release("a")
			item.Done()
			b.Add("a")
			b.expectTurn("a", 0).Done()
		},
		"a release after which nothing is left to wait for forgets the key": func(b *fixture) {
			b.Add("a")
			item := b.take()
			item.Hold(10 * time.Second)
			item.Done()
			b.Release("a")
			b.Release("a")
			b.Release("unknown")
			b.Expect(b.Stats().Delayed).To(BeZero())
		},
		"a release does not shorten timers and back-offs": func(b *fixture) {
			b.Add("a")
			item := b.take()
			item.Hold(10 * time.Second)
			item.After(time.Minute)
			b.Release("a")
			item = b.expectTurn("a", time.Minute)
			item.Hold(10 * time.Second)
			item.RetryAfter(time.Minute)
			b.Release("a")
			item = b.expectTurn("a", 2*time.Minute)
			item.Hold(10 * time.Second)
			item.After(5 * time.Second)
			b.Release("a")
			b.expectTurn("a", 2*time.Minute+5*time.Second).Done()
		},
		"a hold outlasts a shorter timer": func(b *fixture) {
			b.Add("a")
			item := b.take()
			item.Hold(10 * time.Second)
			item.After(time.Second)
			b.expectTurn("a", 10*time.Second).Done()
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, nil, f) })
	}
}
