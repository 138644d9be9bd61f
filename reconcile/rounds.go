package reconcile

import (
	"context"
	"sync"
)

// rounds do something for all who ask at about the same time: each waits for
// one round that began after it had asked. It is safe for concurrent use.
type rounds struct {
	do      func() error
	running *sync.WaitGroup // counts the goroutine

	mu   sync.Mutex // guards what follows
	busy bool
	next *round // that has not begun
}

type round struct {
	done chan struct{}
	err  error
}

// wait returns what the round came to, or nil when ctx has ended.
func (r *rounds) wait(ctx context.Context) error {
	mine := r.join()
	select {
	case <-ctx.Done():
		return nil
	case <-mine.done:
		return mine.err
	}
}

func (r *rounds) join() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	if !r.busy {
		r.busy = true
		r.running.Go(r.run)
	}
	return r.next
}

// run does rounds while somebody waits for one.
func (r *rounds) run() {
	for {
		r.mu.Lock()
		now := r.next
		r.next, r.busy = nil, now != nil
		r.mu.Unlock()
		if now == nil {
			return
		}
		now.err = r.do()
		close(now.done)
	}
}
