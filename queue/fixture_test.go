package queue_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/queue"
)

// The numbers in the package comment.
const (
	retryingShare   = 8
	backgroundShare = 16
	maxCauses       = 8
)

// fixture is a queue in virtual time.
type fixture struct {
	*WithT
	*queue.Queue[string]
	t     *testing.T
	start time.Time
}

// inVirtualTime runs f in a bubble of virtual time, with a queue.
func inVirtualTime(t *testing.T, o *queue.Options[string], f func(b *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &fixture{WithT: NewWithT(t), t: t, start: time.Now()}
		b.renew(o)
		f(b)
	})
}

// renew replaces the queue with a new one.
func (b *fixture) renew(o *queue.Options[string]) {
	b.t.Helper()
	q, err := queue.New(o)
	b.Expect(err).NotTo(HaveOccurred())
	b.Queue = q
}

// now is how long the bubble has lasted.
func (b *fixture) now() time.Duration { return time.Since(b.start) }

// take waits for the next item, for a day at most.
func (b *fixture) take() queue.Item[string] {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 24*time.Hour)
	defer cancel()
	item, err := b.Get(ctx)
	b.Expect(err).NotTo(HaveOccurred())
	return item
}

// expectNext takes the next item, and checks its key and that now returns at.
func (b *fixture) expectNext(key string, at time.Duration) queue.Item[string] {
	b.t.Helper()
	item := b.take()
	b.Expect(item.Key()).To(Equal(key))
	b.Expect(b.now()).To(Equal(at))
	return item
}

// expectNothing checks that no key is dispatched for a day.
func (b *fixture) expectNothing() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 24*time.Hour)
	defer cancel()
	_, err := b.Get(ctx)
	b.Expect(err).To(MatchError(context.DeadlineExceeded))
}

// wait lets d pass.
func (b *fixture) wait(d time.Duration) { <-time.After(d) }

// asleep calls Get in a goroutine, and returns when that goroutine sleeps.
func (b *fixture) asleep(ctx context.Context) <-chan queue.Item[string] {
	got := make(chan queue.Item[string], 1)
	go func() {
		if item, err := b.Get(ctx); err == nil {
			got <- item
		}
		close(got)
	}()
	synctest.Wait()
	return got
}

// drawing returns options of a queue that backs off by one to five seconds. In
// this test, each back-off is the given share of its longest duration.
func drawing(t *testing.T, share float64) *queue.Options[string] {
	t.Helper()
	t.Cleanup(simhook.Use(&simhook.Hooks{Jitter: func() float64 { return 1 - share }}))
	return &queue.Options[string]{Backoff: queue.Backoff{Base: time.Second, Cap: 5 * time.Second}}
}

// heap returns the bytes in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// grouped returns options of a queue whose groups are the first letters of its
// keys.
func grouped() *queue.Options[string] {
	return &queue.Options[string]{Group: func(key string) string {
		var namespace string
		var n int
		if _, err := fmt.Sscanf(key, "%1s%d", &namespace, &n); err != nil {
			return key
		}
		return namespace
	}}
}
