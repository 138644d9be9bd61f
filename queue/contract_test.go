package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/queue"
)

// held runs f with a queue in virtual time, as the test of a promise.
func held(o *queue.Options[string], f func(b *fixture)) func(t *testing.T) {
	return func(t *testing.T) { inVirtualTime(t, o, f) }
}

// drawn is held for a queue whose back-offs are as long as they can be.
func drawn(f func(b *fixture)) func(t *testing.T) {
	return func(t *testing.T) { inVirtualTime(t, drawing(t, 1), f) }
}

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"A key that was added many times while it waited is dispatched once.":                         held(nil, addsManyTimes),
		"A key is held by at most one worker.":                                                        held(nil, manyWorkers),
		"If it was added meanwhile, it is dispatched again when its item has ended.":                  drawn(addedMeanwhile),
		"The earliest deadline of a delayed key wins, and an addition without a delay beats a timer.": held(nil, deadlines),
		"A timer can be replaced by a later one, and cancelled.":                                      held(nil, replaced),
		"Normal keys go before retries, and retries before background keys.":                          drawn(lanes),
		"While a key waits in lane Retrying, one in every 8 dispatches comes from there; while one waits in Background, " +
			"one in every 16.": held(nil, ageing),
		"With Options.Group, the groups of a lane take turns: the n-th key of a group is dispatched after at most n·g " +
			"keys of its lane, where g is the number of groups with keys in the lane.": held(grouped(), turns),
		"A failed key backs off on its own: full jitter, doubling, capped at five minutes.":              backsOff,
		"RetryAfter retries after exactly its delay.":                                                    held(nil, retriesExactly),
		"An addition does not change the back-off, unless it sets ResetBackoff: that ends the back-off.": drawn(resets),
		"A held key can be held back (Item.Hold) until Release or a deadline.":                           held(nil, keepsBack),
		"With Options.MinInterval, a key is not dispatched twice within that interval.": held(
			&queue.Options[string]{MinInterval: time.Minute}, rests),
		"After Drain, waiting keys are still dispatched; after Stop, none are.": held(nil, ends),
		"Both may be called repeatedly, in any order and from any goroutine.":   endsInAnyOrder,
		"Each item knows why its key was added, as at most eight causes.":       held(nil, knowsCauses),
		"It also knows whether every addition was the caller's own work (AddOptions.Own), even with more than eight causes.": held(
			nil, knowsOwnWork),
		"Nothing runs in the background: no goroutine is ever started, and timers exist only while a caller is waiting " +
			"in Get.": background,
	})
}

// addsManyTimes adds a key with all kinds of options in turn, and other keys in
// between.
func addsManyTimes(b *fixture) {
	for i := range 1000 {
		b.AddWithOptions("a", queue.AddOptions{Lane: queue.Lane(i % 3), ResetBackoff: i%5 == 0, Replace: i%7 == 0}) //nolint:gosec // one of three
		b.AddWithOptions("a", queue.AddOptions{After: time.Duration(i%3) * time.Second})
		b.Add(fmt.Sprint("other-", i%4))
	}
	seen := map[string]int{}
	for range 5 {
		item := b.take()
		seen[item.Key()]++
		item.Done()
	}
	b.Expect(seen).To(HaveLen(5))
	b.expectNothing()
}

func manyWorkers(b *fixture) {
	var mu sync.Mutex
	holders, most := map[string]int{}, 0
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	var workers sync.WaitGroup
	for i := range uint64(16) {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(i, 5))
			for {
				item, err := b.Get(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				holders[item.Key()]++
				most = max(most, holders[item.Key()])
				mu.Unlock()
				b.AddWithOptions(item.Key(), queue.AddOptions{ResetBackoff: true, After: time.Duration(random.IntN(3)) * time.Millisecond})
				b.Release(item.Key())
				b.wait(time.Duration(1+random.IntN(5)) * time.Millisecond)
				mu.Lock()
				holders[item.Key()]--
				mu.Unlock()
				[]func(){item.Done, item.Retry, func() { item.After(0) }, func() { item.RetryAfter(0) }}[random.IntN(4)]()
			}
		})
	}
	for i := range 5 {
		b.Add(fmt.Sprint(i))
	}
	workers.Wait()
	b.Expect(most).To(Equal(1))
	b.Expect(holders).To(HaveLen(5))
}

// addedMeanwhile ends the item in each way. A back-off comes first; the
// addition is not lost in it.
func addedMeanwhile(b *fixture) {
	for at, end := range map[time.Duration]func(queue.Item[string]){
		0: queue.Item[string].Done, 1: func(i queue.Item[string]) { i.After(time.Hour) },
		time.Second:     queue.Item[string].Retry,
		2 * time.Second: func(i queue.Item[string]) { i.RetryAfter(2 * time.Second) },
	} {
		b.Add("a")
		item, before := b.take(), b.now()
		b.Add("a")
		b.wait(time.Minute)
		b.Expect(b.Len()).To(BeZero(), "it is held")
		end(item)
		again := b.take()
		b.Expect(again.Key()).To(Equal("a"))
		b.Expect(b.now() - before - time.Minute).To(Equal(at.Truncate(time.Second)))
		again.Done()
		b.expectNothing()
	}
}

func deadlines(b *fixture) {
	delays := []time.Duration{7, 3, 5, 9, 4}
	for first := range delays { // whatever comes first and last
		start := b.now()
		for i := range delays {
			b.AddWithOptions("a", queue.AddOptions{After: delays[(first+i)%len(delays)] * time.Second})
		}
		b.expectNext("a", start+3*time.Second).Done()
		b.expectNothing()
	}
	start := b.now()
	b.AddWithOptions("a", queue.AddOptions{After: time.Second})
	b.Add("a")
	b.AddWithOptions("a", queue.AddOptions{After: time.Millisecond})
	b.expectNext("a", start).Done()
	b.expectNothing()
}

func replaced(b *fixture) {
	b.AddWithOptions("a", queue.AddOptions{After: time.Second})
	b.AddWithOptions("a", queue.AddOptions{After: time.Minute, Replace: true})
	b.expectNext("a", time.Minute).After(time.Second)
	b.AddWithOptions("a", queue.AddOptions{After: time.Minute, Replace: true})
	b.expectNext("a", 2*time.Minute).Retry()
	b.Expect(b.Cancel("a")).To(BeTrue())
	b.AddWithOptions("b", queue.AddOptions{After: time.Second})
	b.Expect(b.Cancel("b")).To(BeTrue())
	b.expectNothing()
}

func lanes(b *fixture) {
	b.Add("retry")
	b.Add("again")
	b.take().Retry()
	b.take().After(time.Second)
	b.AddWithOptions("background", queue.AddOptions{Lane: queue.Background})
	b.wait(time.Second)
	b.Add("live-1")
	b.Add("live-2")
	var got []string
	for range 5 {
		item := b.take()
		got = append(got, item.Key())
		item.Done()
	}
	b.Expect(got[:2]).To(Equal([]string{"live-1", "live-2"}))
	b.Expect(got[2:4]).To(ConsistOf("retry", "again"))
	b.Expect(got[4]).To(Equal("background"))
}

// ageing keeps all lanes full, and empties the lower ones now and then.
func ageing(b *fixture) {
	passed := map[string]int{}
	for i := range 5000 {
		b.Add(fmt.Sprint("l", i%100))
		if i%400 < 300 {
			b.AddWithOptions(fmt.Sprint("r", i%7), queue.AddOptions{Lane: queue.Retrying})
			b.AddWithOptions(fmt.Sprint("b", i%9), queue.AddOptions{Lane: queue.Background})
		}
		s := b.Stats().Lanes
		waits := map[string]bool{"r": s[queue.Retrying].Depth > 0, "b": s[queue.Background].Depth > 0}
		item := b.take()
		lane := item.Key()[:1]
		item.Done()
		for l, share := range map[string]int{"r": retryingShare, "b": backgroundShare} {
			if passed[l]++; lane == l || !waits[l] {
				passed[l] = 0
			}
			b.Expect(passed[l]).To(BeNumerically("<", share), "%s in dispatch %d", l, i)
		}
	}
}

// turns adds groups of very different sizes, and further keys while they are
// served.
func turns(b *fixture) {
	type place struct{ turn, nth, groups int }
	dispatched, nth := 0, map[string]int{}
	expected := map[string]place{}
	add := func(group string, n int) {
		for range n {
			nth[group]++
			key := fmt.Sprintf("%s-%d", group, nth[group])
			b.Add(key)
			expected[key] = place{dispatched, len(b.waiting(group)), 5}
		}
	}
	add("a", 500)
	for _, group := range []string{"b", "c", "d", "e"} {
		add(group, 5)
	}
	for b.Len() > 0 {
		item := b.take()
		dispatched++
		was := expected[item.Key()]
		b.Expect(dispatched-was.turn).To(BeNumerically("<=", was.nth*was.groups), item.Key())
		item.Done()
		if dispatched == 100 {
			add("b", 3)
		}
	}
}

// waiting returns the keys of a group that wait.
func (b *fixture) waiting(group string) []string {
	var keys []string
	for _, e := range b.Entries(10_000) {
		if strings.HasPrefix(e.Key, group) && e.State == queue.Waiting {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func backsOff(t *testing.T) {
	const base = 100 * time.Millisecond
	t.Run("doubling, capped", drawn(func(b *fixture) {
		b.renew(nil)
		b.Add("a")
		at, delay := time.Duration(0), base
		for range 20 {
			b.expectNext("a", at).Retry()
			at += min(delay, 5*time.Minute)
			delay *= 2
		}
	}))
	t.Run("evenly jittered", held(nil, func(b *fixture) {
		const keys, tenths = 5000, 10
		for i := range keys {
			b.Add(fmt.Sprint(i))
		}
		for range keys {
			b.take().Retry()
		}
		counted := make([]int, tenths)
		for range keys {
			b.take().Done()
			counted[min(int(b.now()*tenths/base), tenths-1)]++
		}
		b.Expect(counted).To(HaveEach(BeNumerically("~", keys/tenths, 100)))
	}))
}

func retriesExactly(b *fixture) {
	at := time.Duration(0)
	b.Add("a")
	for _, d := range []time.Duration{time.Nanosecond, time.Hour, 0, 3 * time.Second, 23 * time.Hour} {
		b.take().RetryAfter(d)
		b.AddWithOptions("a", queue.AddOptions{After: d / 2})
		at += d
		item := b.expectNext("a", at)
		b.Add("a")
		item.RetryAfter(d)
		at += d
		b.expectNext("a", at).RetryAfter(0)
	}
}

func resets(b *fixture) {
	b.Add("a")
	b.take().Retry()
	b.take().Retry() // two seconds
	for lane := range queue.Lane(3) {
		b.AddWithOptions("a", queue.AddOptions{Lane: lane, Replace: true, After: time.Duration(lane)})
	}
	b.Expect(b.Len()).To(BeZero())
	item := b.expectNext("a", 3*time.Second)
	b.Expect(item.Attempt()).To(Equal(3))
	item.Retry()
	b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true, Lane: queue.Background})
	item = b.expectNext("a", 3*time.Second)
	b.Expect(item.Attempt()).To(Equal(1))
	item.Retry()
	b.expectNext("a", 4*time.Second).Done()
}

func keepsBack(b *fixture) {
	b.Add("a")
	item := b.take()
	item.Hold(time.Minute)
	b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
	item.Done()
	b.Add("a")
	b.Expect(b.Len()).To(BeZero())
	item = b.expectNext("a", time.Minute)
	item.Hold(time.Hour)
	item.After(0)
	b.Expect(b.Len()).To(BeZero())
	b.Release("a")
	b.expectNext("a", time.Minute).Done()
}

func rests(b *fixture) {
	last := -time.Minute
	b.Add("a")
	for i := range 12 {
		item := b.take()
		b.Expect(b.now() - last).To(BeNumerically(">=", time.Minute))
		last = b.now()
		b.AddWithOptions("a", queue.AddOptions{ResetBackoff: true})
		b.wait(time.Duration(i*7) * time.Second)
		[]func(){item.Done, item.Retry, func() { item.After(0) }, func() { item.RetryAfter(0) }}[i%4]()
		b.Release("a")
		b.Add("a")
	}
}

func ends(b *fixture) {
	for _, lane := range []queue.Lane{queue.Normal, queue.Retrying, queue.Background} {
		b.AddWithOptions(lane.String(), queue.AddOptions{Lane: lane})
	}
	b.AddWithOptions("later", queue.AddOptions{After: time.Second})
	b.Drain()
	b.Add("late")
	for _, key := range []string{"normal", "retrying", "background"} {
		b.expectNext(key, 0).Retry()
	}
	b.expectStopped()

	b.renew(nil)
	b.Add("held")
	item := b.take()
	b.Add("waits")
	b.Add("held")
	b.AddWithOptions("later", queue.AddOptions{After: time.Second})
	b.Stop()
	item.After(0)
	b.Add("late")
	b.wait(time.Minute)
	b.Expect(b.Len()).To(BeZero())
	b.expectStopped()
}

func endsInAnyOrder(t *testing.T) {
	for seed := range uint64(20) {
		inVirtualTime(t, nil, func(b *fixture) {
			random := rand.New(rand.NewPCG(seed, 6))
			for i := range 10 {
				b.Add(fmt.Sprint(i))
			}
			item := b.take()
			waiter := b.asleep(b.t.Context())
			<-waiter
			var callers sync.WaitGroup
			for range 6 {
				end := []func(){b.Drain, b.Stop}[random.IntN(2)]
				callers.Go(func() { end(); end() })
			}
			callers.Wait()
			item.Done()
			b.Stop()
			b.expectStopped()
		})
	}
}

func knowsOwnWork(b *fixture) {
	for _, own := range []bool{true, false} {
		for i := range 100 * maxCauses {
			a := queue.AddOptions{Own: own || i != 50*maxCauses, Cause: queue.Cause{Trigger: "pods", Name: fmt.Sprint(i)}}
			b.AddWithOptions("a", a)
		}
		item := b.take()
		b.Expect(item.Own()).To(Equal(own))
		item.Done()
	}
}

func knowsCauses(b *fixture) {
	var want []queue.Cause
	for i := range 5 * maxCauses {
		c := queue.Cause{Trigger: "pods", Namespace: "default", Name: fmt.Sprint(i), Type: "updated", NewVersion: "7"}
		b.AddWithOptions("a", queue.AddOptions{Cause: c})
		want = append(want, c)
		got := b.Entries(1)[0].Causes
		b.Expect(got).To(HaveLen(min(len(want), maxCauses)))
	}
	got := b.take().Causes()
	b.Expect(got).To(HaveLen(maxCauses))
	b.Expect(got[:maxCauses-1]).To(Equal(want[:maxCauses-1]))
	all := 0
	for _, c := range got {
		all += 1 + c.Merged
	}
	b.Expect(all).To(Equal(len(want)), "no addition is forgotten, only its details")
}

// background looks for goroutines and timers after each kind of call.
func background(t *testing.T) {
	g := NewWithT(t)
	fake := testingclock.NewFakeClock(time.Now())
	atMost := BeNumerically("<=", runtime.NumGoroutine()) // one of another test may still be ending
	q, err := queue.New(&queue.Options[string]{Clock: fake, MinInterval: time.Second})
	g.Expect(err).NotTo(HaveOccurred())
	nothing := func(after string) {
		t.Helper()
		g.Expect(runtime.NumGoroutine()).To(atMost, after)
		g.Expect(fake.HasWaiters()).To(BeFalse(), after)
	}
	nothing("New")
	for i, end := range []func(queue.Item[string]){
		queue.Item[string].Done, queue.Item[string].Retry, func(i queue.Item[string]) { i.After(time.Hour) },
	} {
		q.Add(fmt.Sprint(i))
		item, err := q.Get(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		item.Hold(time.Minute)
		end(item)
		nothing("the end of an item")
	}
	q.AddWithOptions("a", queue.AddOptions{After: time.Hour})
	nothing("a timer")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := q.Get(ctx)
		ended <- err
	}()
	g.Eventually(fake.HasWaiters, time.Minute).Should(BeTrue(), "a caller waits for the timer")
	cancel()
	g.Expect(<-ended).To(MatchError(context.Canceled))
	g.Eventually(fake.HasWaiters, time.Minute).Should(BeFalse())
	q.Drain()
	g.Eventually(runtime.NumGoroutine, time.Minute).Should(atMost)
	nothing("Drain")
}
