package reconcile

import (
	"context"
	"sync"
)

// coalescer runs a function for all callers that ask at about the same time. Each
// waits for one call that began after it asked. It is safe for concurrent use.
type coalescer struct {
	do      func() error
	running *sync.WaitGroup // counts the goroutine

	mu   sync.Mutex // guards the fields below
	busy bool
	next *coalescedCall // that has not begun
}

// coalescedCall is made by newCall.
type coalescedCall struct {
	done chan struct{}
	err  error
}

func newCall() coalescedCall { return coalescedCall{done: make(chan struct{})} }

// end lets those that wait go on. It is called once.
func (c *coalescedCall) end(err error) {
	c.err = err
	close(c.done)
}

// wait returns the error of the call, or nil when ctx has ended.
func (c *coalescedCall) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.done:
		return c.err
	}
}

// wait returns the error of the next call, or nil when ctx has ended.
func (r *coalescer) wait(ctx context.Context) error { return r.join().wait(ctx) }

// join returns the next call, and starts the goroutine if there is none.
func (r *coalescer) join() *coalescedCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		next := newCall()
		r.next = &next
	}
	if !r.busy {
		r.busy = true
		r.running.Go(r.run)
	}
	return r.next
}

// run calls the function while any caller waits.
func (r *coalescer) run() {
	for {
		r.mu.Lock()
		now := r.next
		r.next, r.busy = nil, now != nil
		r.mu.Unlock()
		if now == nil {
			return
		}
		now.end(r.do())
	}
}
