package reconcile

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/queue"
)

// freshness holds keys until the caches have seen what the last reconcile of
// the key wrote: each controller reads its own writes, key by key. The key
// waits in the queue, so no worker blocks.
//
// What a cache has to show is decided write by write, in expect.
type freshness struct {
	queue    *queue.Queue[Key]
	deadline time.Duration
	sources  sources
	onSeen   func(Key)
	holding  atomic.Bool // whether any key waits: most reconciles look no further
	watching atomic.Bool // whether any event matters: most do not

	mu      sync.Mutex // guards what follows
	waits   map[Key]*wait
	notes   map[objectRef][]*note
	expects map[objectRef][]*expectation
	asking  context.Context //nolint:containedctx // of questions to the server, from attach to detach
	running *sync.WaitGroup // counts them
	latest  []*coalescer    // one for each source, to ask about all its objects
}

// wait is what one key still has to see.
type wait struct {
	key     Key
	left    int
	cancels []func()
	expects []*expectation
}

// objectRef is where an object is, or would be, in one cache.
type objectRef struct {
	source int
	key    Key
}

// note is what one cache has shown of an object since before a request was sent.
type note struct {
	objectRef
	had     types.UID   // then; "" if none
	removed []types.UID // since
}

// expectation is an event that a key waits for.
type expectation struct {
	objectRef
	wait *wait
	met  func(before, after metav1.Object) bool
	done bool
}

// attach listens to the caches until detach is called. Questions to the server
// end with ctx and are counted by running.
func (f *freshness) attach(ctx context.Context, running *sync.WaitGroup) (detach func()) {
	f.mu.Lock()
	f.asking, f.running = ctx, running
	f.latest = nil
	for _, s := range f.sources {
		f.latest = append(f.latest, &coalescer{running: running, do: func() error { return s.WaitForLatest(ctx) }})
	}
	f.mu.Unlock()
	removes := make([]func(), 0, len(f.sources))
	for i, s := range f.sources {
		removes = append(removes, s.observe(func(before, after metav1.Object) { f.observed(i, before, after) }))
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

// hold makes item's key wait for writes; it is called before the item ends, so
// that the key cannot be dispatched in between, and for the given time at
// least. It reports whether there is anything to wait for.
func (f *freshness) hold(item queue.Item[Key], writes []write, atLeast time.Duration) bool {
	if len(writes) == 0 {
		return false
	}
	w := &wait{key: item.Key(), left: 1} // this function's own share, so that nothing is released before the end
	f.mu.Lock()
	if f.waits == nil {
		f.waits = map[Key]*wait{}
	}
	f.waits[w.key] = w
	f.holding.Store(true)
	f.mu.Unlock()
	for i := range writes {
		f.await(w, writes, i)
	}
	if atLeast > 0 {
		release := f.share(w)
		f.onEnd(w, stopOf(time.AfterFunc(atLeast, release)))
	}
	item.Hold(f.deadline + atLeast)
	return !f.seen(w)
}

func stopOf(t *time.Timer) func() { return func() { t.Stop() } }

// await adds what writes[i] needs to w, now or when it is answered.
func (f *freshness) await(w *wait, writes []write, i int) {
	written := writes[i]
	if written.whenAnswered == nil {
		f.expect(w, &written, writes[:i])
		f.forgetNotes(written.notes)
		return
	}
	release := f.share(w)
	written.whenAnswered(func(answered write) {
		f.expect(w, &answered, writes[:i])
		f.forgetNotes(answered.notes)
		release()
	})
}

// share makes w wait for one thing more, until the returned function is called
// for the first time.
func (f *freshness) share(w *wait) (release func()) {
	f.mu.Lock()
	w.left++
	f.mu.Unlock()
	return sync.OnceFunc(func() { f.seen(w) })
}

// onEnd has cancel called when w ends.
func (f *freshness) onEnd(w *wait, cancel func()) {
	f.mu.Lock()
	ended := f.waits[w.key] != w
	if !ended {
		w.cancels = append(w.cancels, cancel)
	}
	f.mu.Unlock()
	if ended {
		cancel()
	}
}

// seen takes one share off what w waits for, and releases its key after the last:
// then it is true.
func (f *freshness) seen(w *wait) bool {
	f.mu.Lock()
	w.left--
	done := w.left == 0 && f.waits[w.key] == w
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

// overdue reports whether key is dispatched although its last writes have not
// been seen: the deadline has passed. It forgets what was waited for.
func (f *freshness) overdue(key Key) bool {
	if !f.holding.Load() {
		return false
	}
	f.mu.Lock()
	w, ok := f.waits[key]
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

// forget takes w out of all maps, and returns what else is to be called; f.mu is
// held.
func (f *freshness) forget(w *wait) (cancels []func()) {
	delete(f.waits, w.key)
	f.holding.Store(len(f.waits) > 0)
	for _, e := range w.expects {
		drop(f.expects, e.objectRef, e)
	}
	f.updateWatching()
	return w.cancels
}

// updateWatching notes whether events matter; f.mu is held.
func (f *freshness) updateWatching() { f.watching.Store(len(f.notes)+len(f.expects) > 0) }

// drop removes one element from the slice of an object.
func drop[E interface{ *note | *expectation }](from map[objectRef][]E, at objectRef, gone E) {
	sleep := slices.DeleteFunc(slices.Clone(from[at]), func(e E) bool { return e == gone })
	if len(sleep) == 0 {
		delete(from, at)
	} else {
		from[at] = sleep
	}
}

// note begins to watch what the caches show of the object of a request, before
// it is sent. The watch may be faster than the answer.
func (f *freshness) note(w *write) (notes []*note) {
	if w.key().Name == "" {
		return nil
	}
	for i, s := range f.sources {
		if !s.matches(w) {
			continue
		}
		n := &note{objectRef: objectRef{i, w.key()}}
		f.mu.Lock()
		if f.notes == nil {
			f.notes = map[objectRef][]*note{}
		}
		f.notes[n.objectRef] = append(f.notes[n.objectRef], n)
		f.updateWatching()
		f.mu.Unlock()
		if cached := s.cached(n.key); cached != nil {
			n.had = cached.GetUID()
		}
		notes = append(notes, n)
	}
	return notes
}

func (f *freshness) forgetNotes(notes []*note) {
	if len(notes) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range notes {
		drop(f.notes, n.objectRef, n)
	}
	f.updateWatching()
}

// removedSince reports whether the cache has dropped the object since before the
// request was sent.
func (f *freshness) removedSince(notes []*note, source int, uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(notes, func(n *note) bool {
		return n.source == source && slices.Contains(n.removed, uid)
	})
}

// observed hears of an event of a cache.
func (f *freshness) observed(source int, before, after metav1.Object) {
	if !f.watching.Load() {
		return
	}
	object := after
	if object == nil {
		object = before
	}
	at := objectRef{source, Key{Namespace: object.GetNamespace(), Name: object.GetName()}}
	var met []*expectation
	f.mu.Lock()
	if after == nil {
		for _, n := range f.notes[at] {
			n.removed = append(n.removed, before.GetUID())
		}
	}
	for _, e := range f.expects[at] {
		if !e.done && e.met(before, after) {
			e.done = true
			met = append(met, e)
		}
	}
	f.mu.Unlock()
	for _, e := range met {
		f.seen(e.wait)
	}
}

// expectEvent makes w wait for an event that met returns true for. The caller
// calls the returned function if the cache is found to be so already.
func (f *freshness) expectEvent(w *wait, at objectRef, met func(before, after metav1.Object) bool) (already func()) {
	e := &expectation{objectRef: at, wait: w, met: met}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waits[w.key] != w {
		return func() {}
	}
	if f.expects == nil {
		f.expects = map[objectRef][]*expectation{}
	}
	w.left++
	w.expects = append(w.expects, e)
	f.expects[at] = append(f.expects[at], e)
	f.updateWatching()
	return func() {
		f.mu.Lock()
		first := !e.done
		e.done = true
		f.mu.Unlock()
		if first {
			f.seen(w)
		}
	}
}

// ask makes w wait until question, which is put to the server, is answered.
func (f *freshness) ask(w *wait, source int, question func(ctx context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waits[w.key] != w || f.asking == nil || f.asking.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(f.asking, f.deadline)
	w.left++
	w.cancels = append(w.cancels, cancel)
	f.running.Go(func() {
		defer cancel()
		if question(ctx) == nil && ctx.Err() == nil { // otherwise the key waits for its deadline
			f.seen(w)
		}
	})
}

// askAbout makes w wait until the cache is, about one object, as new as the
// server; about all objects if there is no name.
func (f *freshness) askAbout(w *wait, at objectRef) {
	if at.key.Name == "" {
		f.ask(w, at.source, f.latest[at.source].wait)
		return
	}
	f.ask(w, at.source, func(ctx context.Context) error { return f.sources[at.source].WaitForObject(ctx, at.key) })
}
