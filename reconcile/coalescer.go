package reconcile

import (
	"context"
	"sync"
)

// coalescer runs a function for all callers that ask for it at about the same
// time. Each caller waits for a call that began after it asked. It is safe for
// concurrent use.
type coalescer struct {
	call    func() error
	running *sync.WaitGroup // counts the goroutine that calls run

	mu   sync.Mutex // guards the fields below
	busy bool
	next *coalescedCall // the call that has not begun, or nil
}

// coalescedCall is one call of the function. newCall makes it.
type coalescedCall struct {
	done chan struct{}
	err  error
}

func newCall() coalescedCall { return coalescedCall{done: make(chan struct{})} }

// end ends the call for all that wait for it. It must be called once.
func (c *coalescedCall) end(err error) {
	c.err = err
	close(c.done)
}

// wait returns the error of the call when the call has ended, or nil if ctx
// ends first.
func (c *coalescedCall) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.done:
		return c.err
	}
}

// wait returns the error of the next call, or nil if ctx ends first.
func (r *coalescer) wait(ctx context.Context) error { return r.join().wait(ctx) }

// join returns the next call, and starts the goroutine that makes the calls if
// it is not running. The next call has not begun yet.
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

// run calls the function as long as a caller waits for it.
func (r *coalescer) run() {
	for {
		r.mu.Lock()
		current := r.next
		r.next, r.busy = nil, current != nil
		r.mu.Unlock()
		if current == nil {
			return
		}
		current.end(r.call())
	}
}
