package queue_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/workqueue"
)

func TestStats(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		b.Add("a")
		b.Add("a")
		b.AddWithOptions("b", queue.AddOptions{Lane: queue.Background})
		b.AddWithOptions("c", queue.AddOptions{After: time.Hour})
		b.wait(time.Second)
		b.AddWithOptions("d", queue.AddOptions{Lane: queue.Background})
		b.wait(time.Second)

		s := b.Stats()
		b.Expect(s.Added).To(BeNumerically("==", 5))
		b.Expect(s.Merged).To(BeNumerically("==", 1))
		b.Expect(s.Delayed).To(Equal(1))
		b.Expect(s.Lanes[queue.Normal].Depth).To(Equal(1))
		b.Expect(s.Lanes[queue.Normal].Oldest).To(Equal(2 * time.Second))
		b.Expect(s.Lanes[queue.Retrying]).To(Equal(queue.LaneStats{}))
		b.Expect(s.Lanes[queue.Background].Depth).To(Equal(2))
		b.Expect(s.Lanes[queue.Background].Oldest).To(Equal(2 * time.Second))
		b.Expect(s.Held).To(BeZero())

		first, second := b.take(), b.take()
		b.wait(time.Second)
		s = b.Stats()
		b.Expect(s.Held).To(Equal(2))
		b.Expect(s.OldestHeld).To(Equal(time.Second))
		b.Expect(s.HeldTime).To(Equal(2 * time.Second))
		b.Expect(s.Lanes[queue.Normal].Dispatched).To(BeNumerically("==", 1))
		b.Expect(s.Lanes[queue.Normal].Waited).To(Equal(2 * time.Second))
		b.Expect(s.Lanes[queue.Normal].Oldest).To(BeZero())

		first.Done()
		second.Retry()
		s = b.Stats()
		b.Expect(s.Held).To(BeZero())
		b.Expect(s.HeldTime).To(BeZero())
		b.Expect(s.Retried).To(BeNumerically("==", 1))
		b.Expect(s.Delayed).To(Equal(2))
	})
}

func TestStatsCountFailingKeysAndHolds(t *testing.T) {
	failing := func(b *fixture, want int) {
		b.t.Helper()
		b.Expect(b.Stats().Failing).To(Equal(want))
	}
	inVirtualTime(t, drawing(t, 1), func(b *fixture) {
		b.Add("a")
		b.Add("b")
		b.take().Retry()
		b.take().RetryAfter(time.Second)
		failing(b, 2)
		b.take().Retry()
		failing(b, 2)
		b.take().Done()
		failing(b, 1)
		b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
		failing(b, 0)
		b.take().Retry()
		b.Forget("a")
		failing(b, 0)
		item := b.take()
		item.Retry()
		b.Cancel("a")
		failing(b, 1)
		b.Forget("a")
		failing(b, 0)
		w := workqueue.New(b.Queue, nil)
		w.AddRateLimited("c")
		failing(b, 1)
		w.Forget("c")
		failing(b, 0)
		w.AddRateLimited("c")
		b.Stop()
		failing(b, 0)
		b.Expect(b.Stats().Holds).To(BeZero())
	})
	inVirtualTime(t, nil, func(b *fixture) {
		b.Add("a")
		item := b.take()
		item.Hold(time.Second)
		item.Done()
		b.Expect(b.Stats().Holds).To(BeNumerically("==", 1))
	})
}

func TestStatsCountKeysThatBackOff(t *testing.T) {
	backingOff := func(b *fixture, want int) {
		b.t.Helper()
		b.Expect(b.Stats().BackingOff).To(Equal(want))
	}
	inVirtualTime(t, drawing(t, 1), func(b *fixture) {
		b.Add("a")
		b.Add("b")
		b.AddWithOptions("c", queue.AddOptions{After: time.Hour})
		b.take().RetryAfter(time.Second)
		b.take().RetryAfter(time.Minute)
		backingOff(b, 2)
		b.Add("a")
		backingOff(b, 2)
		b.wait(time.Second)
		backingOff(b, 1)
		b.AddWithOptions("b", queue.AddOptions{ResetBackoff: true})
		backingOff(b, 0)
		b.take().Done()
		item := b.take()
		item.Hold(time.Hour)
		item.RetryAfter(time.Second)
		backingOff(b, 0)
		b.Release(item.Key())
		backingOff(b, 1)
		b.Forget(item.Key())
		b.wait(time.Minute)
		b.Add(item.Key())
		backingOff(b, 0)
		b.take().RetryAfter(time.Minute)
		b.Drain()
		backingOff(b, 0)
	})
}

func TestLaterAdditionsByKeyAreMerged(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		b.Add("a")
		item := b.take()
		for merged := range 3 {
			b.Expect(b.Parts().AddLater("a", time.Hour, false)).To(BeTrue())
			b.Expect(b.Stats().Merged).To(BeNumerically("==", merged))
		}
		item.Done()
	})
}

func TestWaitsAreCountedByTheirLength(t *testing.T) {
	for _, wait := range []time.Duration{
		0, 1023, 1024, 4095, 4096, time.Millisecond, time.Second, 18 * time.Minute, 24 * 365 * time.Hour,
	} {
		inVirtualTime(t, nil, func(b *fixture) {
			b.Add("a")
			b.wait(wait)
			b.take().Done()
			lane := b.Stats().Lanes[queue.Normal]
			waits := lane.Waits
			for bucket, count := range waits {
				above := bucket == 0 || wait >= lane.WaitBound(bucket-1)
				below := bucket == len(waits)-1 || wait < lane.WaitBound(bucket)
				want := 0
				if above && below {
					want = 1
				}
				b.Expect(count).To(BeNumerically("==", want), "%v in bucket %d", wait, bucket)
			}
		})
	}
}

func TestEntries(t *testing.T) {
	inVirtualTime(t, drawing(t, 1), func(b *fixture) {
		cause := queue.Cause{Trigger: "pods", Name: "web"}
		b.Add("failing")
		b.take().Retry()
		b.Add("on hold")
		item := b.take()
		item.Hold(time.Minute)
		item.Done()
		b.Add("on hold")
		b.Add("resting")
		item = b.take()
		item.Hold(time.Hour)
		item.Done()
		b.Add("due after its hold")
		item = b.take()
		item.Hold(time.Minute)
		item.After(2 * time.Hour)
		b.AddWithOptions("held", because(cause))
		b.take()
		b.wait(time.Second / 2)
		b.Add("held")
		b.AddWithOptions("background", queue.AddOptions{Lane: queue.Background})
		b.AddWithOptions("waiting", because(cause))
		b.AddWithOptions("delayed", queue.AddOptions{After: time.Hour})

		at := func(d time.Duration) time.Time { return b.start.Add(d) }
		entries := []queue.EntryStatus[string]{
			{Key: "held", State: queue.Held, Since: at(0), Readded: true, Causes: []queue.Cause{cause}},
			{
				Key: "failing", State: queue.Delayed, Lane: queue.Retrying,
				Failures: 1, Next: at(time.Second), BackingOff: true,
			},
			{Key: "on hold", State: queue.Delayed, Next: at(time.Minute), OnHold: true},
			{Key: "delayed", State: queue.Delayed, Next: at(time.Hour + time.Second/2)},
			{Key: "due after its hold", State: queue.Delayed, Lane: queue.Retrying, Next: at(2 * time.Hour)},
			{Key: "waiting", State: queue.Waiting, Since: at(time.Second / 2), Causes: []queue.Cause{cause}},
			{Key: "background", State: queue.Waiting, Lane: queue.Background, Since: at(time.Second / 2)},
		}
		got := b.Entries(100)
		b.Expect(got).To(HaveLen(len(entries)))
		for i := range got {
			b.Expect(got[i].Since).To(BeTemporally("==", entries[i].Since))
			b.Expect(got[i].Next).To(BeTemporally("==", entries[i].Next))
			got[i].Since, got[i].Next = entries[i].Since, entries[i].Next
		}
		b.Expect(got).To(Equal(entries))
		for limit := range len(entries) {
			some := b.Entries(limit)
			b.Expect(some).To(HaveLen(limit))
			for i := range some {
				b.Expect(some[i].Key).To(Equal(entries[i].Key))
			}
		}
		b.Expect(b.Entries(-1)).To(BeEmpty())
	})
}

func TestEntriesOfGroups(t *testing.T) {
	inVirtualTime(t, grouped(), func(b *fixture) {
		for i := range 3 {
			b.Add(fmt.Sprintf("a%d", i))
			b.Add(fmt.Sprintf("b%d", i))
		}
		b.Expect(b.Entries(100)).To(HaveLen(6))
		b.Expect(b.Stats().Lanes[queue.Normal].Depth).To(Equal(6))
	})
}
