package informer

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// watched is the open watch of a reflector, with the shards whose events it
// delivers.
type watched struct {
	mu  sync.Mutex // guards the fields below
	set keyspace.Set
	// current is nil while a watch, or a list before it, is being requested.
	current  watch.Interface
	openedAt time.Time
	// streaming is true while the watch still delivers a streaming list.
	streaming bool
	changed   chan struct{} // closed when a watch is opened, or a list has been delivered
	// narrowing calls narrowNow when it fires. It is nil while no such call is
	// due.
	narrowing *time.Timer
	hasEnded  bool // whether there will be no further watch
	// endedHere is true if this program has ended the watch, and not the
	// server.
	endedHere bool
}

// stop ends the open watch, if there is one.
func (w *watched) stop() {
	w.mu.Lock()
	current := w.current
	w.endedHere = true
	w.mu.Unlock()
	if current != nil {
		current.Stop()
	}
}

// endedByProgram reports whether this program has ended the last watch.
func (w *watched) endedByProgram() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.endedHere
}

// end records that there will be no further watch.
func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hasEnded, w.current = true, nil
}

// opening records that a watch, or a list before it, is about to be requested.
// Call it before the shards for the request are chosen. Shards that are added
// after that then wait for the next watch, and do not rely on the last one.
func (w *watched) opening() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = nil
}

// opened records a watch that delivers the events of the shards in set.
func (w *watched) opened(opened watch.Interface, set keyspace.Set, streaming bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set, w.current, w.openedAt, w.streaming, w.endedHere = set, opened, time.Now(), streaming, false
	w.notify()
}

// streamed records that a list of the watch has been stored and delivered.
func (w *watched) streamed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streaming, w.openedAt = false, time.Now() // the reflector restarts its measurement, too
	w.notify()
}

func (w *watched) notify() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// shortWatch is how long a watch must be open before it is ended to change its
// shards. If a watch was shorter and has delivered no event, the reflector
// lists all objects again.
const shortWatch = 1100 * time.Millisecond

// narrowAfter is the time between the removal of shards and the opening of a
// watch without them. More shards may be removed or added in that time.
const narrowAfter = 2 * time.Second

// narrow ends the watch after narrowAfter, if the watch then still has shards
// that wanted does not return. The reflector opens a new watch at the same
// resourceVersion. If helps reports that a new watch would not have fewer
// shards, narrow keeps the old one.
func (w *watched) narrow(wanted func() keyspace.Set, helps func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.narrowing == nil && !w.hasEnded {
		w.narrowing = time.AfterFunc(narrowAfter, func() { w.narrowNow(wanted, helps) })
	}
}

func (w *watched) narrowNow(wanted func() keyspace.Set, helps func() bool) {
	w.mu.Lock()
	w.narrowing = nil
	current, ended := w.current, w.hasEnded
	wide := !ended && len(w.set.Minus(wanted())) > 0
	tooEarly := current == nil || w.streaming || time.Since(w.openedAt) < shortWatch
	w.mu.Unlock()
	switch {
	case wide && tooEarly:
		w.narrow(wanted, helps)
	case wide && helps():
		w.stop()
	}
}

// covering returns nil when a watch of all shards in set is open. It returns an
// error if ctx ends, or if ended is closed, because there will then be no
// further watch. If the open watch does not have all the shards, covering ends
// it as soon as it has been open for shortWatch.
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
			long = time.After(shortWatch - time.Since(w.openedAt))
		}
		w.mu.Unlock()
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-ended:
				return requests.ErrNotRunning
			case <-changed:
				waiting = false
			case <-long:
				w.stop()
			}
		}
	}
}

// checkTimeout bounds the request that a resumed watch waits for.
const checkTimeout = 5 * time.Second

// serverClock records what is known about the server's resourceVersions. They
// count the writes, so they only rise, until the server's storage is restored
// from a backup. The server does not report a restore. For example, a watch
// that resumes from a resourceVersion of the future is silent until the server
// has reached it again, and misses all writes until then.
type serverClock struct {
	// restored reports whether the server has gone back and has not been listed
	// since.
	restored bool
	// lists is the number of lists so far.
	lists int
	// delivering reports whether the list after a restore is being delivered.
	// The mark and the cache are from the time before the restore until then.
	delivering bool
	// unsure reports whether a watch has broken off since the last check.
	// The server may have been restored in the meantime.
	unsure bool
	// mustListErr is why the watch cannot be resumed. For example, the watch
	// has delivered an event of another namespace or kind, or the server does
	// not understand the resourceVersion. mustListErr is nil again after the
	// next list.
	mustListErr error
}

// distrust ends the watch, because the watch has delivered an event that does
// not belong to it, such as one of another namespace or kind. The changes of
// the right objects may be missing, so the reflector lists everything again.
func (r *reflectorStore[T]) distrust(err error) {
	r.progress.failed(r.ctx, err) // the reflector would log the object, which may be a Secret
	r.mustListBecause(err)
	r.watched.stop()
}

// mustListBecause makes the reflector list the newest state of everything,
// because of err, instead of resuming the watch.
func (r *reflectorStore[T]) mustListBecause(err error) {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	r.clock.mustListErr = err
}

// isDistrusted reports whether mustListBecause has been called since the last
// list, for example because the watch has delivered an event that does not
// belong to it.
func (r *reflectorStore[T]) isDistrusted() bool {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	return r.clock.mustListErr != nil
}

// mustList returns why no watch can be resumed, or nil.
func (r *reflectorStore[T]) mustList() error {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	if r.clock.restored {
		return requests.ErrRestored
	}
	return r.clock.mustListErr
}

// epoch identifies the list that the cache is based on. Take it before you
// compare the cache with an answer of the server, and hand it to noteRestored.
// It is negative while the cache is based on a state from before a restore.
func (r *reflectorStore[T]) epoch() int {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	return r.clock.epoch()
}

func (c *serverClock) epoch() int {
	if c.delivering {
		return -1
	}
	return c.lists
}

// noteRestored records that the server is at rv although it was at seen before.
// It ends the watch. The reflector then lists everything again.
func (r *reflectorStore[T]) noteRestored(epoch int, seen, rv string) {
	if r.isNewlyRestored(epoch, seen, rv) {
		r.watched.stop()
	}
}

// isNewlyRestored records a restore, and reports whether it was not known yet.
// It logs the restore the first time. It ignores a comparison with a cache that
// a list has replaced since epoch, or is about to replace: that cache may be
// from before a restore that is known.
func (r *reflectorStore[T]) isNewlyRestored(epoch int, seen, rv string) bool {
	r.clockMu.Lock()
	known := r.clock.restored || epoch < 0 || epoch != r.clock.epoch()
	r.clock.restored = r.clock.restored || !known
	r.clockMu.Unlock()
	if known {
		return false
	}
	r.sink.counted.Restores.Add(1)
	r.progress.log.Info("the server was restored to an earlier state, or is a different server, listing everything again",
		"seen", seen, "resourceVersion", rv, "namespace", r.source.namespace, "server", r.source.server)
	return true
}

// forgetTime changes opts, the options of a list, to request the newest state,
// if the watch cannot be resumed. For example, a server that was restored from
// a backup does not have the resourceVersion that the reflector requests.
func (r *reflectorStore[T]) forgetTime(opts *metav1.ListOptions) {
	if r.mustList() == nil || opts.Continue != "" {
		return
	}
	opts.ResourceVersion = ""
	if opts.SendInitialEvents == nil {
		opts.ResourceVersionMatch = ""
	}
}

// listed records a list of the watch, and returns the reason for the list. Call
// delivered once the list has been delivered.
func (r *reflectorStore[T]) listed(items []*tree.Item[T], rv string) versions.Occasion {
	epoch := r.epoch()
	seen, older := r.isBefore(rv)
	if older || r.isUnsure() && r.contradicts(items, seen) {
		r.isNewlyRestored(epoch, seen, rv)
	}
	r.clockMu.Lock()
	restored := r.clock.restored
	r.clock = serverClock{lists: r.clock.lists + 1, delivering: restored || r.clock.delivering}
	r.clockMu.Unlock()
	switch {
	case !r.progress.synced.Load():
		return versions.FirstList
	case restored:
		return versions.RestoredList
	}
	return versions.Relist
}

// delivered records that the last list, at rv, has been delivered.
func (r *reflectorStore[T]) delivered(rv string) {
	r.sink.marks.Advance(r.source.namespace, rv, true)
	r.clockMu.Lock()
	r.clock.delivering = false
	r.clockMu.Unlock()
}

// isBefore returns the resourceVersion that the watch has reached, and reports
// whether rv is older.
func (r *reflectorStore[T]) isBefore(rv string) (seen string, older bool) {
	seen = r.sink.marks.Of(r.source.namespace)
	return seen, r.isOrdered() && rv != "" && versions.Older(rv, seen)
}

// comparable reports whether resourceVersions of this source can be compared.
func (r *reflectorStore[T]) comparable() bool {
	return !r.source.isSimulated() && r.source.follows == nil
}

// brokeOff records that the server may have been restored, if the last watch
// ended unexpectedly. If the last watch was mute, brokeOff also makes the
// reflector list everything again: that watch may have held events back, and
// the next watch may do the same.
func (r *reflectorStore[T]) brokeOff() {
	if r.progress.endedMute() {
		r.mustListBecause(requests.ErrMute)
	}
	if r.progress.endedEarly() && !r.watched.endedByProgram() && r.isOrdered() {
		r.clockMu.Lock()
		r.clock.unsure = true
		r.clockMu.Unlock()
	}
}

// checked returns w, which was resumed at seen. If the server may have been
// restored, it first asks the server. It returns requests.ErrRestored if the
// server is older than seen or the writes that it has stored are not the ones
// that the cache has seen. If the server does not answer, checked returns w,
// and the next watch is checked instead.
func (r *reflectorStore[T]) checked(ctx context.Context, w watch.Interface, seen string) (watch.Interface, error) {
	if !r.isUnsure() || seen == "" {
		return w, nil
	}
	err := r.compare(ctx)
	switch {
	case errors.Is(err, requests.ErrRestored):
		w.Stop()
		return nil, err
	case err != nil:
		r.progress.log.V(1).Info("cannot check whether the server was restored, retrying with the next watch",
			"reason", err.Error())
		return w, nil
	}
	r.clockMu.Lock()
	r.clock.unsure = false
	r.clockMu.Unlock()
	return w, nil
}
