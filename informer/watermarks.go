package informer

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// watermarks are how far a cache has come: for each watch, the newest
// resourceVersion up to which everything has been stored and delivered.
type watermarks struct {
	mu      sync.Mutex        // guards the fields below
	marks   map[string]string // by namespace
	synced  bool
	low     string    // the oldest mark
	waiting []*waiter // in the order of their calls of on
}

// waiter is a call that is due when a watermark reaches a resourceVersion.
type waiter struct {
	// namespace says whose watch counts, if it has one of its own.
	namespace string
	rv        string
	// anyRV says that the first list is all that counts.
	anyRV bool
	// ready, if set, is all that counts.
	ready func() bool
	call  func()
}

// lowest returns the oldest mark.
func (w *watermarks) lowest() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.low
}

// of returns the mark of the watch of namespace.
func (w *watermarks) of(namespace string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.marks[namespace]
}

// advance sets the mark of the watch of namespace. A watch only goes forward; a new
// list may go back.
func (w *watermarks) advance(namespace, rv string, list bool) {
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
	w.marks[namespace] = rv
	w.updateAndUnlock()
}

// setSynced notes whether all watches have stored and delivered their first list, which
// synced tells while no other call can note what was before.
func (w *watermarks) setSynced(synced func() bool) {
	w.mu.Lock()
	w.synced = synced()
	w.updateAndUnlock()
}

// forget removes the mark of a watch that has ended.
func (w *watermarks) forget(namespace string) {
	w.mu.Lock()
	delete(w.marks, namespace)
	w.updateAndUnlock()
}

// reset removes all marks: no watch is left.
func (w *watermarks) reset() {
	w.mu.Lock()
	clear(w.marks)
	w.updateAndUnlock()
}

// updateAndUnlock recomputes the low mark and runs the calls that it releases. The
// caller holds mu, which is unlocked while they run.
func (w *watermarks) updateAndUnlock() {
	w.low = ""
	first := true
	for _, mark := range w.marks {
		if c, err := resourceversion.CompareResourceVersion(mark, w.low); first || err == nil && c < 0 {
			w.low, first = mark, false
		}
	}
	var due []*waiter
	w.waiting = slices.DeleteFunc(w.waiting, func(of *waiter) bool {
		reached := w.reached(of)
		if reached {
			due = append(due, of)
		}
		return reached
	})
	w.mu.Unlock()
	for _, waiting := range due {
		waiting.call()
	}
}

// on calls the waiter's function once, at once or when a mark reaches its
// resourceVersion. cancel does not wait for a call that has begun.
func (w *watermarks) on(waiting *waiter) (cancel func()) {
	w.mu.Lock()
	if w.reached(waiting) {
		w.mu.Unlock()
		waiting.call()
		return func() {}
	}
	w.waiting = append(w.waiting, waiting)
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting = slices.DeleteFunc(w.waiting, func(of *waiter) bool { return of == waiting })
	}
}

// reached reports whether a call is due. The caller holds mu.
func (w *watermarks) reached(waiting *waiter) bool {
	mark, own := w.marks[waiting.namespace]
	switch {
	case waiting.ready != nil:
		return waiting.ready()
	case own && waiting.namespace != "" && !waiting.anyRV: // it has its first list, others may not
	case !w.synced || waiting.anyRV:
		return w.synced
	case !own:
		mark = w.low
	}
	c, err := resourceversion.CompareResourceVersion(mark, waiting.rv)
	return err != nil || c >= 0
}

// older reports whether resourceVersion a is before b. Those that cannot be
// compared, as with fakes, are not; none is before any.
func older(a, b string) bool {
	if a == "" {
		return b != ""
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// waitFor waits until on calls the function that it is given, and reports whether
// that was before the end of ctx.
func waitFor(ctx context.Context, on func(f func()) (cancel func())) bool {
	done := make(chan struct{})
	defer on(func() { close(done) })()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
