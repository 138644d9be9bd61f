package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/queue"
)

// freshness holds a key until the caches have seen the writes of its last
// reconcile, but no longer than the deadline. So each reconcile reads the
// writes of the one before, unless the caches are late. The key waits in the
// queue, and does not block a worker.
//
// expect decides for each write which state a cache must show.
type freshness struct {
	queue    *queue.Queue[Key]
	deadline time.Duration
	sources  sources
	onSeen   func(Key)

	mu        sync.Mutex // guards the fields below
	held      map[Key]*heldKey
	baselines map[objectRef][]*baseline
	expects   map[objectRef][]*expectation
	asking    context.Context //nolint:containedctx // the parent of the requests; nil unless attached
	running   *sync.WaitGroup // counts the requests
	latest    []*coalescer    // by source; waits until its cache is as new as the server
}

// heldKey is a key with the writes for which it still waits.
type heldKey struct {
	key     Key
	pending int
	cancels []func()
	expects []*expectation
}

// expectation is an event for which a key waits.
type expectation struct {
	objectRef
	held *heldKey
	met  func(oldObject, newObject metav1.Object) bool
	done bool
}

// attach observes the caches until detach is called. Requests to the server end
// with ctx and are counted by running.
func (f *freshness) attach(ctx context.Context, running *sync.WaitGroup) (detach func()) {
	f.mu.Lock()
	f.asking, f.running = ctx, running
	f.latest = nil
	for _, s := range f.sources {
		f.latest = append(f.latest, &coalescer{running: running, call: func() error { return s.WaitForLatest(ctx) }})
	}
	f.mu.Unlock()
	removes := make([]func(), 0, len(f.sources))
	for i, s := range f.sources {
		removes = append(removes, s.observe(func(oldObject, newObject metav1.Object) { f.observed(i, oldObject, newObject) }))
	}
	return func() {
		for _, remove := range removes {
			remove()
		}
		f.mu.Lock()
		f.asking = nil
		f.mu.Unlock()
	}
}

// addPending makes w wait until release is called for the first time.
func (f *freshness) addPending(w *heldKey) (release func()) {
	f.mu.Lock()
	w.pending++
	f.mu.Unlock()
	return sync.OnceFunc(func() { f.donePending(w) })
}

// onEnd registers cancel to be called when w stops waiting. If w has stopped
// already, onEnd calls it at once.
func (f *freshness) onEnd(w *heldKey, cancel func()) {
	f.mu.Lock()
	ended := f.held[w.key] != w
	if !ended {
		w.cancels = append(w.cancels, cancel)
	}
	f.mu.Unlock()
	if ended {
		cancel()
	}
}

// donePending removes one reason for w to wait. After the last one it releases
// the key, and reports true.
func (f *freshness) donePending(w *heldKey) bool {
	f.mu.Lock()
	w.pending--
	done := w.pending == 0 && f.held[w.key] == w
	var cancels []func()
	if done {
		cancels = f.forget(w)
	}
	f.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
	if done {
		f.onSeen(w.key)
		f.queue.Release(w.key)
	}
	return done
}

// overdue reports whether key was dispatched at its deadline, before the caches
// had seen its last writes. The key then no longer waits for them.
func (f *freshness) overdue(key Key) bool {
	f.mu.Lock()
	w, ok := f.held[key]
	var cancels []func()
	if ok {
		cancels = f.forget(w)
	}
	f.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
	return ok
}

// forget removes w from all maps, and returns functions that must be called
// without the lock. f.mu must be held.
func (f *freshness) forget(w *heldKey) (cancels []func()) {
	delete(f.held, w.key)
	for _, e := range w.expects {
		drop(f.expects, e.objectRef, e)
	}
	return w.cancels
}

// drop removes an element of ref from the map. If ref has no elements left,
// drop removes ref, too.
func drop[E interface{ *baseline | *expectation }](byRef map[objectRef][]E, ref objectRef, element E) {
	byRef[ref] = slices.DeleteFunc(byRef[ref], func(e E) bool { return e == element })
	if len(byRef[ref]) == 0 {
		delete(byRef, ref)
	}
}

// takeBaselines records the state in which each cache has the object of w, and
// begins to record which objects of that name the caches remove. Call it before
// the request is sent, because the watch may be faster than the answer. End it
// with dropBaselines.
func (f *freshness) takeBaselines(w *write) (baselines []*baseline) {
	if w.key().Name == "" {
		return nil
	}
	for i, s := range f.sources {
		if !s.matches(w) {
			continue
		}
		n := f.takeBaseline(objectRef{i, w.key()})
		if cached := s.cached(n.key); cached != nil {
			n.uid, n.rv = cached.GetUID(), cached.GetResourceVersion()
			w.cached = cached
		}
		baselines = append(baselines, n)
	}
	return baselines
}

// takeBaseline starts to record which objects with the name of ref a cache
// removes.
func (f *freshness) takeBaseline(ref objectRef) *baseline {
	n := &baseline{objectRef: ref}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.baselines == nil {
		f.baselines = map[objectRef][]*baseline{}
	}
	f.baselines[ref] = append(f.baselines[ref], n)
	return n
}

// dropBaselines ends the observations that takeBaselines began.
func (f *freshness) dropBaselines(baselines []*baseline) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range baselines {
		drop(f.baselines, n.objectRef, n)
	}
}

// removedSince reports whether the cache has removed the object since the
// baselines were taken.
func (f *freshness) removedSince(baselines []*baseline, source int, uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(baselines, func(n *baseline) bool {
		return n.source == source && slices.Contains(n.removed, uid)
	})
}

// observed handles an event of a cache. source is the number of the cache.
// observed records a deletion in the baselines, and meets the expectations that
// wait for such an event. oldObject is nil for a new object, and newObject is
// nil for a deleted one.
func (f *freshness) observed(source int, oldObject, newObject metav1.Object) {
	object := newObject
	if object == nil {
		object = oldObject
	}
	ref := objectRef{source, bound.KeyOf(object)}
	var met []*expectation
	f.mu.Lock()
	if newObject == nil {
		for _, n := range f.baselines[ref] {
			n.removed = append(n.removed, oldObject.GetUID())
		}
	}
	for _, e := range f.expects[ref] {
		if !e.done && e.met(oldObject, newObject) {
			e.done = true
			met = append(met, e)
		}
	}
	f.mu.Unlock()
	for _, e := range met {
		f.donePending(e.held)
	}
}

// expectEvent makes w wait for an event for which met returns true. If the
// cache already shows the expected state, there may be no such event. The
// caller must then call endWait to end the wait. If w is no longer the held
// key, expectEvent has no effect.
func (f *freshness) expectEvent(
	w *heldKey, ref objectRef, met func(oldObject, newObject metav1.Object) bool,
) (endWait func()) {
	e := &expectation{objectRef: ref, held: w, met: met}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[w.key] != w {
		return func() {}
	}
	if f.expects == nil {
		f.expects = map[objectRef][]*expectation{}
	}
	w.pending++
	w.expects = append(w.expects, e)
	f.expects[ref] = append(f.expects[ref], e)
	return func() {
		f.mu.Lock()
		first := !e.done
		e.done = true
		f.mu.Unlock()
		if first {
			f.donePending(w)
		}
	}
}

// ask makes w wait until question returns nil. question sends requests. If none
// can be sent because the controller is stopping, w does not wait.
func (f *freshness) ask(w *heldKey, question func(ctx context.Context) error) {
	release := f.addPending(w)
	if !f.query(w, question, release) {
		release()
	}
}

// query calls question in a goroutine, and calls answered if question returns
// nil within the deadline. question sends requests. If w no longer waits, or
// the controller is stopping, query calls neither of them and returns false.
func (f *freshness) query(w *heldKey, question func(ctx context.Context) error, answered func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[w.key] != w || f.asking == nil || f.asking.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(f.asking, f.deadline)
	w.cancels = append(w.cancels, cancel)
	f.running.Go(func() {
		if question(ctx) == nil && ctx.Err() == nil { // if not, the key waits for its deadline
			answered()
		}
	})
	return true
}

// askAbout makes w wait until the cache is as new as the server is now. If ref
// has a name, only that object has to be as new, and otherwise all objects of
// the cache.
func (f *freshness) askAbout(w *heldKey, ref objectRef) {
	if ref.key.Name == "" {
		f.ask(w, f.latest[ref.source].wait)
		return
	}
	f.ask(w, func(ctx context.Context) error { return f.sources[ref.source].WaitForObject(ctx, ref.key) })
}
