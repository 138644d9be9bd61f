package queue_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

func TestLanes(t *testing.T) {
	in := func(l queue.Lane) queue.AddOptions { return queue.AddOptions{Lane: l} }
	for name, f := range map[string]func(b *fixture){
		"a key that is added to a higher lane moves up": func(b *fixture) {
			b.AddWithOptions("b1", in(queue.Background))
			b.AddWithOptions("b2", in(queue.Background))
			b.AddWithOptions("l", in(queue.Normal))
			b.AddWithOptions("b2", in(queue.Normal))
			for _, key := range []string{"l", "b2", "b1"} {
				b.expectNext(key, 0).Done()
			}
			b.expectNothing()
		},
		"a key that is added to a lower lane stays": func(b *fixture) {
			b.AddWithOptions("a", in(queue.Normal))
			b.AddWithOptions("r", in(queue.Retrying))
			b.AddWithOptions("a", in(queue.Background))
			for _, key := range []string{"a", "r"} {
				b.expectNext(key, 0).Done()
			}
		},
		"a delayed addition to a higher lane raises a key that waits already": func(b *fixture) {
			b.AddWithOptions("b", in(queue.Background))
			b.AddWithOptions("b", queue.AddOptions{Lane: queue.Normal, After: time.Second})
			b.AddWithOptions("r", in(queue.Retrying))
			for _, key := range []string{"b", "r"} {
				b.expectNext(key, 0).Done()
			}
		},
		"a delayed key waits in its lane when its time has come": func(b *fixture) {
			b.AddWithOptions("b", queue.AddOptions{Lane: queue.Background, After: time.Second})
			b.AddWithOptions("l", queue.AddOptions{Lane: queue.Normal, After: time.Second})
			b.wait(time.Second)
			for _, key := range []string{"l", "b"} {
				b.expectNext(key, time.Second).Done()
			}
		},
		"a key held while it is added waits in the lane of the addition": func(b *fixture) {
			b.Add("a")
			item := b.take()
			b.AddWithOptions("a", in(queue.Background))
			b.AddWithOptions("r", in(queue.Retrying))
			item.Done()
			for _, key := range []string{"r", "a"} {
				b.expectNext(key, 0).Done()
			}
		},
		"retries and second looks wait in lane Retrying": func(b *fixture) {
			for _, key := range []string{"retry", "after"} {
				b.Add(key)
			}
			b.take().RetryAfter(time.Second)
			b.take().After(time.Second)
			b.wait(time.Second)
			b.Expect(b.Stats().Lanes[queue.Retrying].Depth).To(Equal(2))
			b.Add("live")
			for _, key := range []string{"live", "retry", "after"} {
				b.expectNext(key, time.Second).Done()
			}
		},
		"an addition during a back-off leaves the key in lane Retrying": func(b *fixture) {
			b.Add("a")
			b.take().RetryAfter(time.Second)
			b.AddWithOptions("a", in(queue.Normal))
			b.wait(time.Second)
			b.Expect(b.Stats().Lanes[queue.Retrying].Depth).To(Equal(1))
		},
		"a key that leaves a lane that was due leaves nothing behind": func(b *fixture) {
			for _, lower := range []queue.Lane{queue.Retrying, queue.Background} {
				b.renew(nil)
				b.AddWithOptions("lower", in(lower))
				for i := range backgroundShare {
					b.Add(fmt.Sprint(i))
				}
				for range retryingShare - 1 {
					b.take().Done()
				}
				if lower == queue.Background {
					for range backgroundShare - retryingShare - 1 {
						b.take().Done()
					}
				}
				b.Add("lower")
				b.AddWithOptions("other", in(queue.Retrying+queue.Background-lower))
				keys := b.dispatched()
				b.Expect(keys[len(keys)-2:]).To(Equal([]string{"lower", "other"}))
			}
		},
		"a lane out of range is the lowest": func(b *fixture) {
			b.AddWithOptions("a", in(queue.Lane(200)))
			b.AddWithOptions("b", queue.AddOptions{Lane: 200, After: time.Second})
			b.wait(time.Second)
			b.Expect(b.Stats().Lanes[queue.Background].Depth).To(Equal(2))
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, nil, f) })
	}
}

// A worker that takes a millisecond an item never sees lane Normal empty: a new
// live key comes for each one that is done.
func TestEndlessLiveKeysDoNotStarveLowerLanes(t *testing.T) {
	inVirtualTime(t, nil, func(b *fixture) {
		const each = 5
		for i := range each {
			b.AddWithOptions(fmt.Sprintf("background-%d", i), queue.AddOptions{Lane: queue.Background})
			b.AddWithOptions(fmt.Sprintf("retrying-%d", i), queue.AddOptions{Lane: queue.Retrying})
		}
		live := 0
		for range 3 {
			b.Add(fmt.Sprintf("live-%d", live))
			live++
		}
		served := map[string]int{}
		for dispatch := 1; dispatch <= 200; dispatch++ {
			item := b.take()
			served[item.Key()] = dispatch
			b.wait(time.Millisecond)
			item.Done()
			b.Add(fmt.Sprintf("live-%d", live))
			live++
		}
		for i := range each {
			b.Expect(served).To(HaveKeyWithValue(fmt.Sprintf("retrying-%d", i),
				And(BeNumerically(">", 0), BeNumerically("<=", (i+1)*retryingShare))))
			b.Expect(served).To(HaveKeyWithValue(fmt.Sprintf("background-%d", i),
				And(BeNumerically(">", 0), BeNumerically("<=", (i+1)*backgroundShare))))
		}
		b.Expect(b.Stats().Lanes[queue.Normal].Dispatched).To(BeNumerically("==", 200-2*each))
	})
}

func TestGroups(t *testing.T) {
	for name, f := range map[string]func(b *fixture){
		"take turns inside a lane": func(b *fixture) {
			for _, key := range []string{"a1", "a2", "a3", "b1", "c1", "b2"} {
				b.Add(key)
			}
			for _, key := range []string{"a1", "b1", "c1", "a2", "b2", "a3"} {
				b.expectNext(key, 0).Done()
			}
			b.expectNothing()
		},
		"a large group delays a key of another by one dispatch": func(b *fixture) {
			for i := range 50_000 {
				b.Add(fmt.Sprintf("a%d", i))
			}
			b.take().Done()
			b.Add("b1")
			b.take().Done()
			b.expectNext("b1", 0).Done()
		},
		"take turns in each lane apart": func(b *fixture) {
			for _, key := range []string{"a1", "a2", "b1", "b2"} {
				b.AddWithOptions(key, queue.AddOptions{Lane: queue.Background})
			}
			for _, key := range []string{"a3", "a4", "b3"} {
				b.Add(key)
			}
			for _, key := range []string{"a3", "b3", "a4", "a1", "b1", "a2", "b2"} {
				b.expectNext(key, 0).Done()
			}
		},
		"keep their order when a key moves up": func(b *fixture) {
			for _, key := range []string{"a1", "a2", "a3", "b1"} {
				b.AddWithOptions(key, queue.AddOptions{Lane: queue.Background})
			}
			b.Add("a2")
			b.Add("b1")
			for _, key := range []string{"a2", "b1", "a1", "a3"} {
				b.expectNext(key, 0).Done()
			}
		},
		"are forgotten with their last key": func(b *fixture) {
			before := heap()
			for i := range 20_000 {
				b.Add(fmt.Sprintf("%c1", rune('一'+i)))
				b.take().Done()
			}
			const room = 1 << 20
			b.Expect(heap()).To(BeNumerically("<", before+room))
			b.expectNothing()
		},
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, grouped(), f) })
	}
}
