package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/queue"
)

// A witness watches many goroutines use a queue at once.
type witness struct {
	mu         sync.Mutex // guards the fields below
	holder     map[string]bool
	changed    map[string]int // how often a key has been added
	looked     map[string]int // how many of these the last item knew of
	faults     []string
	dispatches int
}

func (w *witness) change(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed[key]++
}

func (w *witness) begin(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder[key] {
		w.faults = append(w.faults, key+" is held twice")
	}
	w.holder[key] = true
	w.looked[key] = w.changed[key]
	w.dispatches++
}

func (w *witness) end(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holder[key] = false
}

// While many goroutines use the queue, a key has at most one holder, and no
// addition is lost: the last dispatch of a key begins after its last addition.
func TestManyGoroutines(t *testing.T) {
	options := map[string]*queue.Options[string]{
		"plain": {Backoff: queue.Backoff{Base: time.Millisecond, Cap: time.Second}},
		"groups": {
			Backoff: queue.Backoff{Base: time.Millisecond, Cap: time.Second},
			Group:   func(key string) string { return key[:5] }, MinInterval: time.Millisecond,
		},
	}
	for name, o := range options {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, o, func(b *fixture) {
				w := &witness{holder: map[string]bool{}, changed: map[string]int{}, looked: map[string]int{}}
				ctx, cancel := context.WithCancel(b.t.Context())
				var workers, others sync.WaitGroup
				for i := range 8 {
					workers.Go(func() { work(ctx, b, w, uint64(i)) })
					others.Go(func() { disturb(b, w, uint64(i)) })
				}
				others.Wait()
				b.wait(20 * time.Second) // back-offs, holds and timers come to their end
				b.Expect(b.Entries(10)).To(BeEmpty())
				cancel()
				workers.Wait()
				b.Expect(w.faults).To(BeEmpty())
				b.Expect(w.looked).To(Equal(w.changed))
				b.Expect(w.dispatches).To(BeNumerically(">", 1000))
				b.Expect(b.Stats().Held).To(BeZero())
			})
		})
	}
}

func work(ctx context.Context, b *fixture, w *witness, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	for {
		patience, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(50))*time.Millisecond)
		item, err := b.Get(patience)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		w.begin(item.Key())
		if random.IntN(4) == 0 {
			b.wait(time.Duration(random.IntN(1000)) * time.Microsecond)
		}
		if random.IntN(8) == 0 {
			item.Hold(time.Duration(random.IntN(100)) * time.Millisecond)
		}
		_ = item.Causes()
		w.end(item.Key())
		switch random.IntN(8) {
		case 0:
			item.Retry()
		case 1:
			item.RetryAfter(time.Duration(random.IntN(10)) * time.Millisecond)
		case 2:
			item.After(time.Duration(random.IntN(10)) * time.Millisecond)
		default:
			item.Done()
		}
	}
}

func disturb(b *fixture, w *witness, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	for range 2000 {
		key := fmt.Sprintf("ns-%02d/%d", random.IntN(4), random.IntN(10))
		switch random.IntN(12) {
		case 0:
			b.Release(key)
		case 1:
			b.Forget(key)
		case 2:
			_, _ = b.Stats(), b.Entries(3)
		case 3:
			b.wait(time.Duration(random.IntN(2000)) * time.Microsecond)
		default:
			w.change(key)
			b.AddWithOptions(key, queue.AddOptions{
				Lane:         queue.Lane(random.IntN(3)),
				After:        time.Duration(max(random.IntN(6)-3, 0)) * time.Millisecond,
				ResetBackoff: random.IntN(3) == 0,
				Cause:        queue.Cause{Trigger: "test", Name: key, NewVersion: fmt.Sprint(random.IntN(9))},
			})
		}
	}
}

// Goroutines drain or stop a queue at the same time as others: every worker
// learns of it, no key remains, and the keys that waited before a drain have
// been dispatched.
func TestManyGoroutinesEndTheQueue(t *testing.T) {
	for name, end := range map[string]func(b *fixture, seed uint64){
		"drain": func(b *fixture, _ uint64) { b.Drain() },
		"stop":  func(b *fixture, _ uint64) { b.Stop() },
		"both": func(b *fixture, seed uint64) {
			if seed%2 == 0 {
				b.Drain()
			} else {
				b.Stop()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, nil, func(b *fixture) {
				w := &witness{holder: map[string]bool{}, changed: map[string]int{}, looked: map[string]int{}}
				const before = 100
				for i := range before {
					b.Add(fmt.Sprint("before-", i))
				}
				ends := make([]error, 8)
				var workers, others sync.WaitGroup
				for i := range uint64(8) {
					workers.Go(func() { ends[i] = workToTheEnd(b, w, i) })
					others.Go(func() { disturb(b, w, i) })
					others.Go(func() {
						b.wait(time.Duration(i%3) * time.Millisecond)
						end(b, i)
						end(b, i)
					})
				}
				others.Wait()
				workers.Wait()
				b.Expect(ends).To(HaveEach(queue.ErrStopped))
				b.Expect(w.faults).To(BeEmpty())
				b.Expect(b.Entries(10)).To(BeEmpty())
				b.Expect(b.Stats().Held).To(BeZero())
				b.Expect(b.Len()).To(BeZero())
				if name == "drain" {
					for i := range before {
						b.Expect(w.looked).To(HaveKey(fmt.Sprint("before-", i)))
					}
				}
			})
		})
	}
}

// workToTheEnd works for at most an hour, and returns why there are no more.
func workToTheEnd(b *fixture, w *witness, seed uint64) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Hour)
	defer cancel()
	random := rand.New(rand.NewPCG(seed, 3))
	for {
		item, err := b.Get(ctx)
		if err != nil {
			return err
		}
		w.begin(item.Key())
		b.wait(time.Duration(random.IntN(1000)) * time.Microsecond)
		w.end(item.Key())
		if random.IntN(4) == 0 {
			item.Retry()
		} else {
			item.Done()
		}
	}
}
