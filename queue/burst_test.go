package queue_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/homeostat/homeostat/queue"
)

// An empty queue keeps room for some keys, and gives back the room for the
// other keys of a burst.
const some, burst = 4096, 20_000

// takeAll takes n items and ends them by end.
func (b *fixture) takeAll(n int, end func(queue.Item[string])) {
	b.t.Helper()
	for range n {
		item, err := b.Get(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		end(item)
	}
}

func TestABurstLeavesNoMemory(t *testing.T) {
	for name, f := range map[string]func(b *fixture, keys int){
		"waiting": func(b *fixture, keys int) {
			for i := range keys {
				b.AddWithOptions(fmt.Sprint(i), because(queue.Cause{Trigger: "pods", Name: fmt.Sprint("of ", i)}))
			}
		},
		"delayed": func(b *fixture, keys int) {
			for i := range keys {
				b.AddWithOptions(fmt.Sprint(i), queue.AddOptions{After: time.Hour})
			}
		},
		"failing": func(b *fixture, keys int) {
			for i := range keys {
				b.Add(fmt.Sprint(i))
			}
			b.takeAll(keys, func(i queue.Item[string]) { i.RetryAfter(time.Hour) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, nil, func(b *fixture) {
				f(b, some)
				b.takeAll(some, queue.Item[string].Done)
				before := heap()
				f(b, burst)
				b.takeAll(burst, queue.Item[string].Done)
				const each = 8 // bytes: half a timer, and what the table has for a key
				b.Expect(heap()).To(BeNumerically("<", before+burst*each))
				runtime.KeepAlive(b.Queue)
			})
		})
	}
}

func TestAQueueWorksAfterABurst(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		for range 2 {
			for i := range burst {
				b.Add(fmt.Sprint(i))
			}
			b.takeAll(burst, queue.Item[string].Done)
			b.Expect(b.Entries(1)).To(BeEmpty())
		}
		for i := range 200 {
			b.Add(fmt.Sprint(i))
		}
		b.Expect(b.Len()).To(Equal(200))
	})
}

func TestAQueueCanBeStoppedAfterABurst(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		for i := range burst {
			b.AddWithOptions(fmt.Sprint(i), queue.AddOptions{After: time.Hour})
		}
		for i := 1; i < burst; i++ {
			b.Cancel(fmt.Sprint(i))
		}
		b.Stop()
		b.Expect(b.Entries(1)).To(BeEmpty())
		b.Expect(b.Stats().Delayed).To(BeZero())
	})
}

// clockReads counts how often a clock is read.
type clockReads struct {
	clock.Clock
	n int
}

func (c *clockReads) Since(t time.Time) time.Duration {
	c.n++
	return c.Clock.Since(t)
}

func TestAdditionsOfAKeyThatWaitsReadNoClock(t *testing.T) {
	reads := &clockReads{Clock: clock.RealClock{}}
	inVirtualTime(t, &queue.Options[string]{Clock: reads}, func(b *fixture) {
		b.Add("a")
		b.Add("a") // does not know yet that it needs none
		before := reads.n
		for range 100 {
			b.Add("a")
		}
		b.Expect(reads.n).To(Equal(before))
	})
}
