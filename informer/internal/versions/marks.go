package versions

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Marks are how far a cache has come: for each watch, the newest
// resourceVersion up to which everything has been stored and delivered.
type Marks struct {
	mu      sync.Mutex        // guards the fields below
	marks   map[string]string // by namespace
	synced  bool
	low     string    // the oldest mark
	waiting []*Waiter // in the order of their calls of On
}

// Waiter is a call that is due when a watermark reaches a resourceVersion.
type Waiter struct {
	// Namespace says whose watch counts, if it has one of its own.
	Namespace string
	RV        string
	// AnyRV says that the first list is all that counts.
	AnyRV bool
	// Ready, if set, alone decides whether the call is due; the other
	// conditions are then ignored.
	Ready func() bool
	Call  func()
}

// Lowest returns the oldest mark.
func (w *Marks) Lowest() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.low
}

// Of returns the mark of the watch of namespace.
func (w *Marks) Of(namespace string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.marks[namespace]
}

// Advance sets the mark of the watch of namespace. A watch only goes forward; a new
// list may go back.
func (w *Marks) Advance(namespace, rv string, list bool) {
	w.mu.Lock()
	if !list {
		// A mark that is no number, as fakes have, is replaced by the first number.
		_, bad := resourceversion.CompareResourceVersion(rv, "1")
		c, unknown := resourceversion.CompareResourceVersion(rv, w.marks[namespace])
		if bad != nil || unknown == nil && c <= 0 {
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

// SetSynced notes whether all watches have stored and delivered their first
// list, which synced tells while no other call can note what was before.
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

// Reset removes all marks: no watch is left.
func (w *Marks) Reset() {
	w.mu.Lock()
	clear(w.marks)
	w.updateAndUnlock()
}

// updateAndUnlock recomputes the low mark and runs the calls that it releases. The
// caller holds mu, which is unlocked while they run.
func (w *Marks) updateAndUnlock() {
	w.low = ""
	first := true
	for _, mark := range w.marks {
		if c, err := resourceversion.CompareResourceVersion(mark, w.low); first || err == nil && c < 0 {
			w.low, first = mark, false
		}
	}
	var due []*Waiter
	w.waiting = slices.DeleteFunc(w.waiting, func(of *Waiter) bool {
		reached := w.reached(of)
		if reached {
			due = append(due, of)
		}
		return reached
	})
	w.mu.Unlock()
	for _, waiting := range due {
		waiting.Call()
	}
}

// On calls the Waiter's function once, at once or when a mark reaches its
// resourceVersion. cancel does not wait for a call that has begun.
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
		w.waiting = slices.DeleteFunc(w.waiting, func(of *Waiter) bool { return of == waiting })
	}
}

// reached reports whether a call is due. The caller holds mu.
func (w *Marks) reached(waiting *Waiter) bool {
	mark, own := w.marks[waiting.Namespace]
	switch {
	case waiting.Ready != nil:
		return waiting.Ready()
	case own && waiting.Namespace != "" && !waiting.AnyRV: // it has its first list, others may not
	case !w.synced || waiting.AnyRV:
		return w.synced
	case !own:
		mark = w.low
	}
	c, err := resourceversion.CompareResourceVersion(mark, waiting.RV)
	return err != nil || c >= 0
}

// Older reports whether resourceVersion a is before b. Those that cannot be
// compared, as with fakes, are not; none is before any.
func Older(a, b string) bool {
	if a == "" {
		return b != ""
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// WaitFor waits until on calls the function that it is given, and reports whether
// that was before the end of ctx.
func WaitFor(ctx context.Context, on func(f func()) (cancel func())) bool {
	done := make(chan struct{})
	defer on(func() { close(done) })()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
