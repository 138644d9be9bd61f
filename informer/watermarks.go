package informer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
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

// errRestored ends requests about a state that the server has lost.
var errRestored = errors.New("the server's resourceVersions have gone back, as after a restore of its storage: " +
	"everything is listed again")

const (
	// checkTimeout bounds the request that a resumed watch waits for.
	checkTimeout = 5 * time.Second
	// timelyEnd is how long before its timeout a watch may end and still count as ended
	// by a server that works.
	timelyEnd = 5 * time.Second
)

// serverClock is what a reflectorStore knows of the server's resourceVersions. They count
// the writes, so they only rise, until the server's storage is restored from a backup.
// Then the server does not tell: a watch that resumes from a later resourceVersion
// brings nothing until the server has come there again, and never what it wrote in
// between.
type serverClock struct {
	// restored says that the server has gone back, and that the list which follows from
	// that has not come yet.
	restored bool
	// unsure says that a watch broke off: the server may have been restored since.
	unsure bool
}

// noteRestored notes that the server is at rv, although it was at seen before. It ends
// the watch, so that the reflector lists everything again.
func (r *reflectorStore[T]) noteRestored(seen, rv string) {
	if r.isNewlyRestored(seen, rv) {
		r.watched.stop()
	}
}

// isNewlyRestored notes and logs a restore, and reports whether that is new.
func (r *reflectorStore[T]) isNewlyRestored(seen, rv string) bool {
	r.clockMu.Lock()
	known := r.clock.restored
	r.clock.restored = true
	r.clockMu.Unlock()
	if known {
		return false
	}
	r.sink.counted.restores.Add(1)
	r.progress.log.Info("the server's storage was restored to an earlier state, listing everything again",
		"seen", seen, "resourceVersion", rv, "namespace", r.source.namespace, "server", r.source.server)
	return true
}

// isRestored reports whether everything is to be listed again.
func (r *reflectorStore[T]) isRestored() bool {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	return r.clock.restored
}

// forgetTime makes a list of a restored server one of its newest state, since it
// does not have the state that the reflector asks for.
func (r *reflectorStore[T]) forgetTime(opts *metav1.ListOptions) {
	if !r.isRestored() || opts.Continue != "" {
		return
	}
	opts.ResourceVersion = ""
	if opts.SendInitialEvents == nil {
		opts.ResourceVersionMatch = ""
	}
}

// listedAt notes a list of the watch, and returns what it is.
func (r *reflectorStore[T]) listedAt(rv string) occasion {
	if seen, before := r.isBefore(rv); before {
		r.isNewlyRestored(seen, rv)
	}
	r.clockMu.Lock()
	restored := r.clock.restored
	r.clock = serverClock{}
	r.clockMu.Unlock()
	switch {
	case !r.progress.synced.Load():
		return firstList
	case restored:
		return restoredList
	}
	return relist
}

// isBefore reports whether rv is before what the watch has brought, which it returns.
func (r *reflectorStore[T]) isBefore(rv string) (seen string, before bool) {
	seen = r.sink.marks.of(r.source.namespace)
	return seen, r.comparable() && rv != "" && older(rv, seen)
}

// comparable reports whether the resourceVersions of all events and lists are in order.
func (r *reflectorStore[T]) comparable() bool { return !r.source.fake && r.source.follows == nil }

// brokeOff notes that the last watch may have ended because the server has.
func (r *reflectorStore[T]) brokeOff() {
	if r.progress.endedEarly() && !r.watched.stoppedByUs() && r.comparable() {
		r.clockMu.Lock()
		r.clock.unsure = true
		r.clockMu.Unlock()
	}
}

// checked returns w, which was resumed at seen, unless the server is not as new as that.
// A check without an answer is repeated when the next watch is opened.
func (r *reflectorStore[T]) checked(ctx context.Context, w watch.Interface, seen string) (watch.Interface, error) {
	r.clockMu.Lock()
	unsure := r.clock.unsure
	r.clockMu.Unlock()
	if !unsure || seen == "" {
		return w, nil
	}
	rv, err := r.serverVersion(ctx)
	switch {
	case err != nil:
		r.progress.log.V(1).Info("cannot ask whether the server was restored, trying when the next watch is opened",
			"reason", err.Error())
		return w, nil
	case older(rv, seen):
		w.Stop()
		r.noteRestored(seen, rv)
		return nil, errRestored
	}
	r.clockMu.Lock()
	r.clock.unsure = false
	r.clockMu.Unlock()
	return w, nil
}

// serverVersion returns how new the server is. It lists one object: without a
// resourceVersion, the server answers as new as it is.
func (r *reflectorStore[T]) serverVersion(ctx context.Context) (string, error) {
	if !r.lists.begin() {
		return "", context.Cause(ctx)
	}
	defer r.lists.end()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	opts := metav1.ListOptions{Limit: 1}
	r.selectShards(&opts, r.sink.store.shards.wanted())
	page, err := r.list(ctx, opts)
	if err != nil {
		return "", err
	}
	list, err := meta.ListAccessor(page)
	if err != nil {
		return "", err
	}
	return list.GetResourceVersion(), nil
}
