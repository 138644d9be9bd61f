package queue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

// dispatched returns the keys that wait, in the order of their dispatch.
func (b *fixture) dispatched() []string {
	b.t.Helper()
	var keys []string
	for b.Len() > 0 {
		item := b.take()
		keys = append(keys, item.Key())
		item.Done()
	}
	return keys
}

func (b *fixture) expectStopped() {
	b.t.Helper()
	_, err := b.Get(b.t.Context())
	b.Expect(err).To(MatchError(queue.ErrStopped))
}

func TestQueue(t *testing.T) {
	for name, f := range map[string]func(b *fixture){
		"keys are dispatched in the order of their first addition": func(b *fixture) {
			for _, key := range []string{"c", "a", "b", "a", "c"} {
				b.Add(key)
			}
			b.Expect(b.dispatched()).To(Equal([]string{"c", "a", "b"}))
		},
		"many keys are kept apart": func(b *fixture) {
			var want []string
			for i := range 20_000 {
				want = append(want, fmt.Sprint(i))
				b.Add(want[i])
			}
			b.Expect(b.dispatched()).To(Equal(want))
			b.Expect(b.Entries(1)).To(BeEmpty())
			for _, key := range want[:100] { // after the burst's memory has been freed
				b.Add(key)
			}
			b.Expect(b.dispatched()).To(Equal(want[:100]))
		},
		"the first end of an item counts, and later ones do nothing": func(b *fixture) {
			b.Add("a")
			held := b.take()
			held.Done()
			b.Add("a")
			again := b.take()
			held.Done()
			held.Retry()
			held.After(0)
			held.RetryAfter(0)
			held.Hold(time.Hour)
			b.Expect(held.Causes()).To(BeNil())
			b.Expect(b.Len()).To(BeZero())
			b.Add("a")
			b.Expect(b.Len()).To(BeZero(), "the second item still holds the key")
			again.Done()
			b.Expect(b.Len()).To(Equal(1))
		},
		"the zero item has no end": func(b *fixture) {
			var none queue.Item[string]
			none.Done()
			none.Retry()
			none.RetryAfter(time.Second)
			none.After(time.Second)
			none.Hold(time.Second)
			b.Expect(none.Causes()).To(BeNil())
		},
		"Get with an ended context takes nothing": func(b *fixture) {
			ended, cancel := context.WithCancel(b.t.Context())
			cancel()
			b.Add("a")
			_, err := b.Get(ended)
			b.Expect(err).To(MatchError(context.Canceled))
			b.Expect(b.Len()).To(Equal(1))
		},
		"a drained queue dispatches a held key that was added before": func(b *fixture) {
			b.Add("a")
			held := b.take()
			b.Add("a")
			b.Drain()
			b.Add("a")
			held.Done()
			b.Expect(b.dispatched()).To(Equal([]string{"a"}))
			b.expectStopped()
		},
		"a drained queue drops retries, timers and holds": func(b *fixture) {
			for _, key := range []string{"retry", "after", "hold"} {
				b.Add(key)
			}
			retry, after, hold := b.take(), b.take(), b.take()
			hold.Hold(time.Hour)
			b.Drain()
			retry.Retry()
			after.After(time.Nanosecond)
			hold.Done()
			b.expectStopped()
			b.Expect(b.Entries(10)).To(BeEmpty())
		},
		"a drained queue dispatches what was added and is on hold": func(b *fixture) {
			for _, key := range []string{"before", "while held", "released", "nothing waits"} {
				b.Add(key)
			}
			before, held, released, nothing := b.take(), b.take(), b.take(), b.take()
			for _, item := range []queue.Item[string]{before, held, released, nothing} {
				item.Hold(time.Hour)
			}
			before.Done()
			released.Done()
			nothing.Done()
			for _, key := range []string{"before", "while held", "released"} {
				b.Add(key)
			}
			b.Drain()
			held.Done()
			b.Release("released")
			b.expectNext("released", 0).Done()
			b.Expect(b.Stats().Delayed).To(Equal(2))
			b.expectNext("before", time.Hour).Done()
			b.expectNext("while held", time.Hour).Done()
			b.expectStopped()
			b.Expect(b.Entries(10)).To(BeEmpty())
		},
		"a stopped queue drops waiting keys, and lets held ones end": func(b *fixture) {
			b.Add("a")
			b.Add("b")
			b.AddWithOptions("c", queue.AddOptions{After: time.Second})
			held := b.take()
			b.Add("a")
			b.Stop()
			b.Add("d")
			b.Expect(b.Len()).To(BeZero())
			b.Expect(b.Entries(10)).To(HaveLen(1))
			held.Retry()
			b.Expect(b.Entries(10)).To(BeEmpty())
			b.expectStopped()
		},
		"it has the name that it was given": func(b *fixture) {
			b.renew(&queue.Options[string]{Name: "nodes"})
			b.Expect(b.Name()).To(Equal("nodes"))
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, nil, f) })
	}
}

func TestNewNamesEveryWrongOption(t *testing.T) {
	_, err := queue.New(&queue.Options[string]{
		Name: "bad", MinInterval: -1, Backoff: queue.Backoff{Base: -2, Cap: -3},
	})
	NewWithT(t).Expect(err).To(MatchError("making queue \"bad\": " +
		"queue.Backoff.Base is -2ns: must not be negative\n" +
		"queue.Backoff.Cap is -3ns: must be at least Base, -2ns\n" +
		"queue.Options.MinInterval is -1ns: must not be negative"))
}

func TestLanesAndStatesHaveNames(t *testing.T) {
	for value, name := range map[fmt.Stringer]string{
		queue.Normal: "normal", queue.Retrying: "retrying", queue.Background: "background", queue.Lane(3): "lane(3)",
		queue.State(0): "unknown", queue.Waiting: "waiting", queue.Delayed: "delayed", queue.Held: "held",
		queue.State(4): "unknown",
	} {
		NewWithT(t).Expect(value.String()).To(Equal(name))
	}
}
