package queue_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

// echo is an addition by the event of an own write.
func echo(n int) queue.AddOptions {
	return queue.AddOptions{Own: true, Cause: queue.Cause{Trigger: "maps", Name: fmt.Sprint(n)}}
}

func TestAnItemIsOwnIfEveryAdditionWasOwn(t *testing.T) {
	ownIn := func(d time.Duration) queue.AddOptions { return queue.AddOptions{Own: true, After: d} }
	for name, f := range map[string]func(b *fixture){
		"however many there were": func(b *fixture) {
			for n := range 100 * maxCauses {
				b.AddWithOptions("a", echo(n))
			}
			b.Expect(b.take().Own()).To(BeTrue())
			for n := range 100 * maxCauses {
				b.AddWithOptions("b", echo(n))
			}
			b.Add("b")
			b.Expect(b.take().Own()).To(BeFalse())
		},
		"each dispatch for itself": func(b *fixture) {
			b.Add("a")
			item := b.take()
			b.AddWithOptions("a", echo(0))
			b.Expect(item.Own()).To(BeFalse())
			item.Done()
			b.Expect(item.Own()).To(BeFalse(), "it has ended")
			b.Expect(b.take().Own()).To(BeTrue())
		},
		"an own timer that expires": func(b *fixture) {
			b.AddWithOptions("a", ownIn(time.Second))
			b.Expect(b.expectNext("a", time.Second).Own()).To(BeTrue())
		},
		"of two timers the one that expires": func(b *fixture) {
			b.AddWithOptions("a", ownIn(time.Second))
			b.AddWithOptions("a", queue.AddOptions{After: time.Minute})
			b.AddWithOptions("b", ownIn(time.Minute))
			b.AddWithOptions("b", queue.AddOptions{After: 2 * time.Second})
			b.Expect(b.expectNext("a", time.Second).Own()).To(BeTrue())
			b.Expect(b.expectNext("b", 2*time.Second).Own()).To(BeFalse())
		},
		"no timer of After, RetryAfter or Retry": func(b *fixture) {
			for _, end := range []func(queue.Item[string]){
				func(i queue.Item[string]) { i.After(time.Second) },
				func(i queue.Item[string]) { i.RetryAfter(time.Second) },
				func(i queue.Item[string]) { i.Retry() },
			} {
				b.AddWithOptions("a", echo(0))
				end(b.take())
				b.Expect(b.take().Own()).To(BeFalse())
				b.renew(nil)
			}
		},
		"no retry, even if an own addition was made while the key was held or backs off": func(b *fixture) {
			for _, end := range []func(queue.Item[string]){
				func(i queue.Item[string]) { i.RetryAfter(time.Second) },
				func(i queue.Item[string]) { i.Retry() },
			} {
				b.Add("a")
				item := b.take()
				b.AddWithOptions("a", echo(0))
				end(item)
				item = b.take()
				b.Expect(item.Own()).To(BeFalse())
				end(item)
				b.AddWithOptions("a", echo(1))
				item = b.take()
				b.Expect(item.Own()).To(BeFalse())
				item.Done()
				b.AddWithOptions("a", echo(2))
				b.Expect(b.take().Own()).To(BeTrue(), "the retries are over")
				b.renew(nil)
			}
		},
		"a dispatch without a back-off is no retry": func(b *fixture) {
			reset, earlier := echo(0), ownIn(time.Second)
			reset.ResetBackoff, earlier.ResetBackoff = true, true
			b.Add("a")
			item := b.take()
			b.AddWithOptions("a", reset)
			item.RetryAfter(time.Hour)
			item = b.expectNext("a", 0)
			b.Expect(item.Own()).To(BeTrue(), "reset while it was held")
			item.RetryAfter(time.Hour)
			b.AddWithOptions("a", echo(0))
			b.AddWithOptions("a", reset)
			item = b.expectNext("a", 0)
			b.Expect(item.Own()).To(BeTrue(), "reset while it backed off")
			item.RetryAfter(time.Hour)
			b.AddWithOptions("a", earlier)
			item = b.expectNext("a", time.Second)
			b.Expect(item.Own()).To(BeTrue(), "an earlier timer")
			item.RetryAfter(time.Second)
			b.Cancel("a")
			b.AddWithOptions("a", echo(0))
			b.Expect(b.expectNext("a", 2*time.Second).Own()).To(BeTrue(), "the retry was cancelled")
		},
		"a retry that is due when its back-off is reset": func(b *fixture) {
			reset := echo(0)
			reset.ResetBackoff = true
			b.Add("a")
			item := b.take()
			item.Hold(time.Minute)
			item.RetryAfter(time.Second)
			b.AddWithOptions("a", echo(0))
			b.wait(2 * time.Second)
			b.AddWithOptions("a", reset)
			b.Release("a")
			b.Expect(b.take().Own()).To(BeFalse())
		},
		"a timer that has not expired leads to nothing": func(b *fixture) {
			b.Add("a")
			b.take().After(time.Hour)
			b.AddWithOptions("a", echo(0))
			b.Expect(b.take().Own()).To(BeTrue())
		},
		"a timer that has expired during a hold": func(b *fixture) {
			b.Add("a")
			item := b.take()
			item.Hold(time.Minute)
			item.After(time.Second)
			b.wait(2 * time.Second)
			b.AddWithOptions("a", echo(0))
			b.Release("a")
			b.Expect(b.take().Own()).To(BeFalse())
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, nil, f) })
	}
}
