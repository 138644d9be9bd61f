package queue_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

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
				item := b.expectNext("a", at)
				b.Expect(item.Attempt()).To(Equal(i + 1))
				item.Retry()
			}
		},
		"success forgets the failures": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.expectNext("a", time.Second).Retry()
			b.expectNext("a", 3*time.Second).Done()
			b.Add("a")
			item := b.take()
			b.Expect(item.Attempt()).To(Equal(1))
			item.Retry()
			b.expectNext("a", 4*time.Second).After(time.Second)
			item = b.expectNext("a", 5*time.Second)
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
			item := b.expectNext("a", 3*time.Second)
			b.Expect(item.Attempt()).To(Equal(3))
			item.Retry()
			b.expectNext("a", 7*time.Second).Done()
			b.expectNothing()
		},
		"an addition while the key is held does not break through either": func(b *fixture) {
			b.Add("a")
			item := b.take()
			b.AddWithOptions("a", statusOnly())
			item.Retry()
			b.expectNext("a", time.Second).Done()
			b.expectNothing()
		},
		"an addition with Reset breaks through and forgets the failures": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.take().Retry()
			b.wait(time.Second / 2)
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
			item := b.expectNext("a", 1500*time.Millisecond)
			b.Expect(item.Attempt()).To(Equal(1))
			item.Retry()
			b.expectNext("a", 2500*time.Millisecond).Done()
			b.expectNothing()
		},
		"a Reset while the key is held makes the failure one of the past": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			item := b.expectNext("a", time.Second)
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
			item.Retry()
			item = b.expectNext("a", time.Second)
			b.Expect(item.Attempt()).To(Equal(1))
			item.Retry()
			b.expectNext("a", 2*time.Second).Done()
			b.expectNothing()
		},
		"a delayed Reset while the key is held does not put off the retry": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			item := b.expectNext("a", time.Second)
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true, After: time.Hour})
			item.Retry()
			b.expectNext("a", 2*time.Second).Done()
		},
		"RetryAfter is exact, counts as a failure and is not capped": func(b *fixture) {
			b.Add("a")
			b.take().RetryAfter(17 * time.Second)
			b.AddWithOptions("a", statusOnly())
			item := b.expectNext("a", 17*time.Second)
			b.Expect(item.Attempt()).To(Equal(2))
			item.RetryAfter(0)
			b.expectNext("a", 17*time.Second).RetryAfter(time.Hour)
			b.wait(time.Minute)
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
			b.expectNext("a", time.Minute+17*time.Second).Done()
			b.expectNothing()
		},
		"Forget starts the count anew, and leaves the retry in place": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.take().Retry()
			b.Forget("a")
			b.Forget("unknown")
			item := b.expectNext("a", 3*time.Second)
			b.Expect(item.Attempt()).To(Equal(1))
			item.Retry()
			b.expectNext("a", 4*time.Second).Done()
		},
		"a cancelled retry does not come, and the key keeps its failures and its back-off": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.take().Retry()
			b.Expect(b.Cancel("a")).To(BeTrue())
			b.Expect(b.Entries(1)).To(BeEmpty())
			b.Expect(b.Stats()).To(And(HaveField("Failing", 1), HaveField("BackingOff", 0)))
			b.Add("a")
			item := b.expectNext("a", 3*time.Second)
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
			b.Expect(b.expectNext("a", 0).Attempt()).To(Equal(1))
		},
		"cancelling a retry does not lose what was added while it backed off": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.AddWithOptions("a", statusOnly())
			b.Expect(b.Cancel("a")).To(BeFalse())
			b.expectNext("a", time.Second).Done()
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

func TestMinInterval(t *testing.T) {
	options := &queue.Options[string]{MinInterval: time.Minute}
	for name, f := range map[string]func(b *fixture){
		"it lies between two dispatches of a key": func(b *fixture) {
			b.Add("a")
			item := b.take()
			b.wait(10 * time.Second)
			item.Done()
			b.Add("a")
			b.Add("other")
			b.expectNext("other", 10*time.Second).Done()
			b.expectNext("a", time.Minute).Done()
			b.expectNothing()
		},
		"not even a Reset shortens it": func(b *fixture) {
			b.Add("a")
			b.take().Retry()
			b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
			b.expectNext("a", time.Minute).Done()
		},
		"it does not delay a key that comes later anyway": func(b *fixture) {
			b.Add("a")
			b.take().After(2 * time.Minute)
			b.expectNext("a", 2*time.Minute).Done()
			b.wait(time.Hour)
			b.Add("a")
			b.expectNext("a", time.Hour+2*time.Minute).Done()
		},
		"a dispatch that is discounted does not count": func(b *fixture) {
			b.Add("a")
			b.take().Done()
			b.Parts().Discount("a") // too late
			b.Add("a")
			item := b.expectNext("a", time.Minute)
			b.Parts().Discount("a")
			b.Add("a") // it is held until its item has ended
			item.Done()
			b.expectNext("a", time.Minute).Done()
			b.Add("a")
			b.expectNext("a", 2*time.Minute).Done()
		},
		"a key that was not added again is not delayed by it": func(b *fixture) {
			b.Add("a")
			b.take().Done()
			b.Expect(b.Stats().Delayed).To(BeZero())
			b.Add("a")
			b.Expect(b.Stats().Delayed).To(Equal(1))
			b.take().Done()
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
			b.expectNext("a", 3*time.Second).Done()
			b.expectNothing()
		},
		"a key that nothing asks for is not dispatched at the deadline": func(b *fixture) {
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
			b.expectNext("a", 0).Done()
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
			item = b.expectNext("a", time.Minute)
			item.Hold(10 * time.Second)
			item.RetryAfter(time.Minute)
			b.Release("a")
			item = b.expectNext("a", 2*time.Minute)
			item.Hold(10 * time.Second)
			item.After(5 * time.Second)
			b.Release("a")
			b.expectNext("a", 2*time.Minute+5*time.Second).Done()
		},
		"a hold outlasts a shorter timer": func(b *fixture) {
			b.Add("a")
			item := b.take()
			item.Hold(10 * time.Second)
			item.After(time.Second)
			b.expectNext("a", 10*time.Second).Done()
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, nil, f) })
	}
}
