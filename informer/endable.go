package informer

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"
)

// endable is a watch that another goroutine than its reader may end, without an error:
// client-go's watches report the connection that their own Stop has closed, and a
// reflector lists everything again then.
type endable struct {
	watch.Interface

	// ends reports whether the watch ends at an event, which is not passed on; nil never.
	ends    func(watch.Event) bool
	out     chan watch.Event
	done    chan struct{}
	stopped atomic.Bool
}

func newEndable(w watch.Interface, ends func(watch.Event) bool) *endable {
	e := &endable{Interface: w, ends: ends, out: make(chan watch.Event), done: make(chan struct{})}
	go e.forward()
	return e
}

// forward passes events on until the watch ends or Stop is called. After Stop none is
// passed on: the last one may be the error of the connection that Stop has closed.
func (e *endable) forward() {
	defer close(e.out)
	for {
		select {
		case <-e.done:
			return
		case event, open := <-e.Interface.ResultChan():
			if !open {
				return
			}
			select {
			case <-e.done: // it may be the error of our own Stop
				return
			default:
			}
			if e.ends != nil && e.ends(event) {
				return
			}
			select {
			case <-e.done: // the next watch brings it again
				return
			case e.out <- event:
			}
		}
	}
}

// ResultChan implements [watch.Interface].
func (e *endable) ResultChan() <-chan watch.Event { return e.out }

// Stop implements [watch.Interface]. It does not wait for another call of Stop, which may
// be closing a stalled connection.
func (e *endable) Stop() {
	if e.stopped.CompareAndSwap(false, true) {
		close(e.done)
		e.Interface.Stop()
	}
}
