package versions

import (
	"context"
	"slices"
	"sync"

	"github.com/homeostat/homeostat/internal/rvorder"
)

// Marks record the progress of a cache. The mark of a watch is the newest
// resourceVersion up to which all changes have been stored and delivered.
type Marks struct {
	mu      sync.Mutex        // guards the fields below
	marks   map[string]string // the marks of watches, by namespace
	synced  bool
	oldest  string    // the oldest mark, or empty
	waiting []*Waiter // calls that are not due yet, in the order of the calls of On
}

// Waiter describes a call that is made when a mark reaches a resourceVersion.
type Waiter struct {
	// Namespace is the namespace whose mark must reach RV. If the namespace
	// does not have its own watch, the oldest mark counts.
	Namespace string
	RV        string
	// AnyRV is true if the call waits only until all watches have stored and
	// delivered their first list. Namespace and RV then have no effect.
	AnyRV bool
	// Ready replaces all other conditions of the Waiter, unless it is nil. It
	// is called whenever the marks change, and the call is made once it returns
	// true.
	Ready func() bool
	Call  func()
}

// Oldest returns the oldest mark, or the empty string if there is no mark.
func (w *Marks) Oldest() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.oldest
}

// Of returns the mark of the watch of namespace, or the empty string.
func (w *Marks) Of(namespace string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.marks[namespace]
}

// Advance sets the mark of the watch of namespace to rv. list reports whether
// rv is from a list. Only a list may move the mark back; an event moves it only
// forward.
func (w *Marks) Advance(namespace, rv string, list bool) {
	w.mu.Lock()
	if !list {
		// The marks of fakes are not numbers. They are replaced by the first
		// number.
		mark := w.marks[namespace]
		if !rvorder.Comparable(rv) || rvorder.Comparable(mark) && !rvorder.Older(mark, rv) {
			w.mu.Unlock()
			return
		}
	}
	if w.marks == nil {
		w.marks = map[string]string{}
	}
	w.marks[namespace] = rv
	w.updateAndUnlock()
}

// SetSynced stores the result of synced, a function that reports whether all
// watches have stored and delivered their first list. SetSynced calls the
// function with mu held, to keep concurrent updates in order.
func (w *Marks) SetSynced(synced func() bool) {
	w.mu.Lock()
	w.synced = synced()
	w.updateAndUnlock()
}

// Forget removes the mark of a watch that has ended.
func (w *Marks) Forget(namespace string) {
	w.mu.Lock()
	delete(w.marks, namespace)
	w.updateAndUnlock()
}

// Reset removes all marks. Call it after all watches have ended.
func (w *Marks) Reset() {
	w.mu.Lock()
	clear(w.marks)
	w.updateAndUnlock()
}

// updateAndUnlock computes the oldest mark again and makes the calls that are
// due. The caller holds mu, which is released before the calls.
func (w *Marks) updateAndUnlock() {
	w.oldest = ""
	first := true
	for _, mark := range w.marks {
		if first || rvorder.Older(mark, w.oldest) {
			w.oldest, first = mark, false
		}
	}
	var due []*Waiter
	w.waiting = slices.DeleteFunc(w.waiting, func(waiter *Waiter) bool {
		reached := w.reached(waiter)
		if reached {
			due = append(due, waiter)
		}
		return reached
	})
	w.mu.Unlock()
	for _, waiting := range due {
		waiting.Call()
	}
}

// On calls the Waiter's function once: immediately if the Waiter's condition
// holds, and otherwise when a change of the marks makes it hold. cancel removes
// the Waiter, and does not wait for a call that has begun.
func (w *Marks) On(waiting *Waiter) (cancel func()) {
	w.mu.Lock()
	if w.reached(waiting) {
		w.mu.Unlock()
		waiting.Call()
		return func() {}
	}
	w.waiting = append(w.waiting, waiting)
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting = slices.DeleteFunc(w.waiting, func(waiter *Waiter) bool { return waiter == waiting })
	}
}

// reached reports whether a call is due. The caller holds mu.
func (w *Marks) reached(waiting *Waiter) bool {
	mark, own := w.marks[waiting.Namespace]
	switch {
	case waiting.Ready != nil:
		return waiting.Ready()
	case own && waiting.Namespace != "" && !waiting.AnyRV: // this watch has its first list, although others may not
	case !w.synced || waiting.AnyRV:
		return w.synced
	case !own:
		mark = w.oldest
	}
	return !rvorder.Older(mark, waiting.RV)
}

// Older reports whether resourceVersion a is older than b. It returns false if
// they cannot be compared, as with fakes. An empty resourceVersion is older
// than all others.
func Older(a, b string) bool {
	if a == "" {
		return b != ""
	}
	return rvorder.Older(a, b)
}

// WaitFor calls register with a function, and waits until that function is
// called. It returns false if ctx ends first.
func WaitFor(ctx context.Context, register func(f func()) (cancel func())) bool {
	done := make(chan struct{})
	defer register(func() { close(done) })()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
