package reconcile

import (
	"sync"
	"time"
)

// busy counts the time in the reconciles of a slot. It is safe for concurrent use.
type busy struct {
	since time.Time // when the slot came

	mu      sync.Mutex // guards the fields below
	running int
	at      time.Time     // until when total is counted
	total   time.Duration // of all reconciles
}

// add notes that n more reconciles run.
func (b *busy) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count()
	b.running += n
}

// time returns that of all reconciles until now.
func (b *busy) time() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count()
	return b.total
}

func (b *busy) count() {
	now := time.Now()
	b.total += time.Duration(b.running) * now.Sub(b.at)
	b.at = now
}
