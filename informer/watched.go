package informer

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/internal/keyspace"
)

var (
	errNotRunning = errors.New("the informer is not running")
	errGivenUp    = errors.New("the shards were removed meanwhile")
)

// watched is the open watch of a reflector, and what it brings.
type watched struct {
	mu  sync.Mutex // guards the fields below
	set keyspace.Set
	// current is nil while a watch, or a list before it, is being requested.
	current watch.Interface
	since   time.Time
	// streaming says that it brings the first list.
	streaming bool
	changed   chan struct{} // closed when a watch is opened, or the first list has come
	// narrowing runs until the watch is looked at because it may bring too much.
	narrowing *time.Timer
	over      bool // there will be no more
	// ours says that the watch was ended by this program, not by the server.
	ours bool
}

// stop ends the watch that is open.
func (w *watched) stop() {
	w.mu.Lock()
	current := w.current
	w.ours = true
	w.mu.Unlock()
	if current != nil {
		current.Stop()
	}
}

// stoppedByUs reports whether the last watch was ended by this program.
func (w *watched) stoppedByUs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ours
}

// end follows the last watch.
func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.current = true, nil
}

// opening notes that a watch, or a list before it, is about to be requested. It
// precedes the choice of the shards to ask for, so that shards which come later wait
// for the next watch and do not trust the last one.
func (w *watched) opening() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = nil
}

// opened notes a watch that brings set.
func (w *watched) opened(of watch.Interface, set keyspace.Set, streaming bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set, w.current, w.since, w.streaming, w.ours = set, of, time.Now(), streaming, false
	w.notify()
}

// streamed notes that the first list has come.
func (w *watched) streamed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streaming, w.since = false, time.Now() // the reflector restarts its measurement, too
	w.notify()
}

func (w *watched) notify() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// shortWatch is how long a watch has to be open before it is ended: the reflector
// lists everything again after one that is shorter and has brought nothing.
const shortWatch = 1100 * time.Millisecond

// narrowAfter is how long after shards have gone the watch is opened again without them: more of them may go, or come.
const narrowAfter = 2 * time.Second

// narrow ends the watch after a while if it brings more than wanted then, and helps says that the next
// one would not: it is opened again where it is, for that.
func (w *watched) narrow(wanted func() keyspace.Set, helps func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.narrowing == nil && !w.over {
		w.narrowing = time.AfterFunc(narrowAfter, func() { w.narrowNow(wanted, helps) })
	}
}

func (w *watched) narrowNow(wanted func() keyspace.Set, helps func() bool) {
	w.mu.Lock()
	w.narrowing = nil
	current, over := w.current, w.over
	wide := !over && len(w.set.Minus(wanted())) > 0
	early := current == nil || w.streaming || time.Since(w.since) < shortWatch
	w.mu.Unlock()
	switch {
	case wide && early:
		w.narrow(wanted, helps)
	case wide && helps():
		w.stop()
	}
}

// covering returns when a watch that brings set is open, or no more will be. It ends the
// one that is open if that brings less.
func (w *watched) covering(ctx context.Context, ended <-chan struct{}, set keyspace.Set) error {
	for {
		w.mu.Lock()
		if w.current != nil && !w.streaming && w.set.Includes(set) {
			w.mu.Unlock()
			return nil
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed, current := w.changed, w.current
		var long <-chan time.Time
		if current != nil && !w.streaming {
			long = time.After(shortWatch - time.Since(w.since))
		}
		w.mu.Unlock()
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-ended:
				return errNotRunning
			case <-changed:
				waiting = false
			case <-long:
				w.stop()
			}
		}
	}
}
