package reconcile

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/queue"
)

// freshness holds back keys until the caches have seen what the last turn of
// the key wrote: each controller reads its own writes, key by key. The key
// waits in the queue, so no worker blocks.
type freshness struct {
	queue    *queue.Queue[Key]
	deadline time.Duration
	sources  []source
	onSeen   func(Key)
	holding  atomic.Bool // whether any key waits: most turns look no further

	mu         sync.Mutex // guards what follows
	waits      map[Key]*wait
	departures map[types.UID][]*wait
}

// A wait is what one key still has to see.
type wait struct {
	key     Key
	left    int
	cancels []func()
	leaving []types.UID
}

// attach listens for departing objects until detach is called.
func (f *freshness) attach() (detach func()) {
	removes := make([]func(), 0, len(f.sources))
	for _, s := range f.sources {
		removes = append(removes, s.watchDepartures(f.departed))
	}
	return func() {
		for _, remove := range removes {
			remove()
		}
	}
}

// hold makes item's key wait for writes; it is called before the item ends, so
// that the key cannot be handed out in between, and for the given time at
// least. It tells whether there is anything to wait for.
func (f *freshness) hold(item queue.Item[Key], writes []write, atLeast time.Duration) bool {
	if len(writes) == 0 {
		return false
	}
	key := item.Key()
	w := &wait{key: key, left: 1} // this function's own share, so that nothing is released before the end
	f.mu.Lock()
	if f.waits == nil {
		f.waits, f.departures = map[Key]*wait{}, map[types.UID][]*wait{}
	}
	f.waits[key] = w
	f.holding.Store(true)
	f.mu.Unlock()
	for _, written := range writes {
		for _, s := range f.sources {
			if s.concerns(written.object) {
				f.expect(w, s, written)
			}
		}
	}
	if atLeast > 0 {
		timer := time.AfterFunc(atLeast, func() { f.seen(w) })
		f.mu.Lock()
		w.left++
		w.cancels = append(w.cancels, func() { timer.Stop() })
		f.mu.Unlock()
	}
	item.Hold(f.deadline + atLeast)
	return !f.seen(w)
}

// expect adds one source's view of one write to what w waits for.
func (f *freshness) expect(w *wait, s source, written write) {
	f.mu.Lock()
	w.left++
	f.mu.Unlock()
	if written.deleted {
		f.expectDeparture(w, s, written.object)
		return
	}
	cancel := s.OnSeen(written.object.GetNamespace(), written.object.GetResourceVersion(), func() { f.seen(w) })
	f.mu.Lock()
	w.cancels = append(w.cancels, cancel)
	f.mu.Unlock()
}

func (f *freshness) expectDeparture(w *wait, s source, object metav1.Object) {
	uid := object.GetUID()
	f.mu.Lock()
	f.departures[uid] = append(f.departures[uid], w)
	w.leaving = append(w.leaving, uid)
	f.mu.Unlock()
	if s.departed(Key{Namespace: object.GetNamespace(), Name: object.GetName()}, uid) {
		f.departed(uid)
	}
}

// departed tells those who wait for the end of the object of that UID.
func (f *freshness) departed(uid types.UID) {
	f.mu.Lock()
	waiting := f.departures[uid]
	delete(f.departures, uid)
	f.mu.Unlock()
	for _, w := range waiting {
		f.seen(w)
	}
}

// seen takes one share off what w waits for, and lets its key go after the
// last: then it is true.
func (f *freshness) seen(w *wait) bool {
	f.mu.Lock()
	w.left--
	done := w.left == 0 && f.waits[w.key] == w
	if done {
		delete(f.waits, w.key)
		f.holding.Store(len(f.waits) > 0)
	}
	f.mu.Unlock()
	if done {
		f.onSeen(w.key)
		f.queue.Release(w.key)
	}
	return done
}

// overdue tells whether key is handed out although its last writes have not
// been seen: the deadline has passed. It forgets what was waited for.
func (f *freshness) overdue(key Key) bool {
	if !f.holding.Load() {
		return false
	}
	f.mu.Lock()
	w, ok := f.waits[key]
	if ok {
		f.forget(w)
	}
	f.mu.Unlock()
	if !ok {
		return false
	}
	for _, cancel := range w.cancels {
		cancel()
	}
	return true
}

// forget takes w out of both maps; f.mu is held.
func (f *freshness) forget(w *wait) {
	delete(f.waits, w.key)
	f.holding.Store(len(f.waits) > 0)
	for _, uid := range w.leaving {
		rest := slices.DeleteFunc(f.departures[uid], func(other *wait) bool { return other == w })
		if len(rest) == 0 {
			delete(f.departures, uid)
		} else {
			f.departures[uid] = rest
		}
	}
}
