package informer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/redact"
)

// keepUnheld is how long an object stays cached after the last reference to it.
const keepUnheld = time.Minute

// reference is an object that is referred to, and the state of its watch.
type reference[T Object] struct {
	key types.NamespacedName
	// through lists, watches and converts the objects of its namespace.
	through *referenceSource[T]
	// wrong says why there can be no such object; nothing is sent then.
	wrong error

	// storing is held while the object is stored. A handler that is called
	// meanwhile must not wait for another change of the same object, as
	// everywhere.
	storing sync.Mutex
	// dropped says that the object is no longer stored. It is written under
	// both mutexes.
	dropped bool
	// dropping says that it soon will not be, unless it is held again.
	// References.mu guards it.
	dropping bool

	// References.mu guards the fields below.
	holds  int
	unheld time.Time // when holds became 0
	// listed says that the state at the server was stored and delivered, and
	// epoch at which References.epoch it was asked for.
	listed bool
	epoch  int
	// received is the resourceVersion up to which all was received, and
	// delivered that up to which handlers have been called.
	received, delivered string
	// breaks counts the ends of watches after which the server may be a
	// restored one, and sure is what it was when the last list was asked for.
	// While they differ, received and delivered may be resourceVersions that
	// the server has lost.
	breaks, sure int
	// resumes says that the next watch may begin at received.
	resumes bool
	busy    bool // a request is under way, or will be soon
	watch   *referenceWatch
	// shares says that the watch of its namespace watches the object, or did
	// until it came to its end in time. Then watch is nil.
	shares bool
	// gap says that its watch may have begun after received: what happened
	// between them is missing until the object has been listed.
	gap bool

	// err is the last failure, nil after a success; failing is when the first
	// one was, and failures counts them. refused says that the server's answer
	// will stay as it is until somebody changes something.
	err      error
	refused  bool
	failing  time.Time
	failures int
	told     bool      // that there is a problem
	again    time.Time // nothing is sent before
	waiters  []*referenceWaiter
}

// referenceWaiter is a call that is due when a resourceVersion was delivered.
type referenceWaiter struct {
	rv   string
	call func()
}

// referenceWatch is an open watch.
type referenceWatch struct {
	watch.Interface
	stopReading func()
	closing     *sync.WaitGroup
	opened      time.Time
	deadline    time.Time // zero if the server does not end it
	bookmarks   atomic.Bool
	active      atomic.Int64 // in Unix nanoseconds
	stops       sync.Once
}

func (w *referenceWatch) markActive() { w.active.Store(time.Now().UnixNano()) }

func (w *referenceWatch) lastActivity() time.Time { return time.Unix(0, w.active.Load()) }

// stalls returns when the watch is to be replaced if it brings nothing: zero
// for never.
func (w *referenceWatch) stalls() (at time.Time) {
	if w.bookmarks.Load() {
		at = w.lastActivity().Add(watchIdle)
	}
	return earlier(at, w.deadline)
}

// stop ends the watch. It does not wait for a connection to be closed.
func (w *referenceWatch) stop() {
	w.stops.Do(func() {
		w.stopReading()
		w.closing.Go(w.Stop)
	})
}

// problem returns why nothing is known, or may be known soon, of the object:
// nil unless somebody has to do something, or the failure has lasted.
// References.mu is held.
func (f *reference[T]) problem() error {
	switch {
	case f.wrong != nil:
		return f.wrong
	case f.err != nil && (f.refused || time.Since(f.failing) >= outageTime):
		return f.err
	}
	return nil
}

// watchingError says which object cannot be watched.
type watchingError struct {
	kind string
	key  types.NamespacedName
	err  error
}

// Error names the object, and the missing permission.
func (e watchingError) Error() string {
	text := fmt.Sprintf("watching %s %q: %v", e.kind, strings.TrimPrefix(e.key.String(), "/"), e.err)
	if apierrors.IsForbidden(e.err) {
		text += " (the verbs list and watch on this name are needed)"
	}
	return text
}

func (e watchingError) Unwrap() error { return e.err }

// problemOf describes a reference that does not work.
func problemOf(key types.NamespacedName, err error, since time.Time) Problem {
	cause, remedy := causeOf(err), ""
	if cause == causeForbidden {
		remedy = "grant the verbs list and watch on this name"
	} else {
		remedy = remedies[cause]
	}
	return Problem{
		Object: strings.TrimPrefix(key.String(), "/"), Cause: cause, Reason: redact.Text(err.Error()), Remedy: remedy,
		Since: since,
	}
}

// isRefusal reports whether an error stays until somebody changes something: a
// missing permission, a kind that is not served, an answer that Go cannot
// decode.
func isRefusal(err error) bool {
	switch causeOf(err) {
	case causeForbidden, causeNotServed:
		return true
	}
	return soundsUndecodable(err) && apierrors.ReasonForError(err) == ""
}

// newReference returns the reference to an object. References.mu is held.
func (r *References[T]) newReference(key types.NamespacedName) *reference[T] {
	f := &reference[T]{key: key, through: r.sourceOf(key.Namespace), epoch: -1}
	mapping, _ := r.in.mapping()
	switch {
	case r.in.scope.clusterScoped && key.Namespace != "":
		f.wrong = fmt.Errorf("%s %q has a namespace, and the kind has none", r.Kind(), key)
	case key.Namespace == "" && mapping.Scope != nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace:
		f.wrong = fmt.Errorf("%s %q has no namespace", r.Kind(), key.Name)
	case f.through.source.err != nil:
		f.wrong = f.through.source.err
	}
	if shared := f.through.shared; shared != nil {
		shared.wrong = f.wrong // whatever it is, it is about the namespace
	}
	return f
}

// hold keeps the object of key cached until release was called as often.
func (r *References[T]) hold(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.refs[key]
	if f == nil {
		f = r.newReference(key)
		r.refs[key] = f
	}
	f.holds++
	r.session.wakeUp()
}

func (r *References[T]) release(key types.NamespacedName) {
	r.mu.Lock()
	f := r.refs[key]
	if f == nil || f.holds == 0 {
		r.mu.Unlock()
		return
	}
	if f.holds--; f.holds == 0 {
		f.unheld = time.Now()
	}
	idle := r.session == nil && f.holds == 0
	r.session.wakeUp()
	r.mu.Unlock()
	if idle {
		r.drop(f)
	}
}

// holds reports whether the object of key is cached, or will be.
func (r *References[T]) holds(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refs[key] != nil
}

// state reports whether it is known that the object of key exists, or that it
// does not.
func (r *References[T]) state(key types.NamespacedName) (known bool, err error) {
	if err := r.in.Unreadable(key); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.refs[key]
	if f == nil || r.session == nil || r.session.stopping || f.dropped || f.dropping {
		return false, nil
	}
	current := f.listed && f.epoch == r.epoch
	switch err := f.problem(); {
	case err != nil && (f.wrong != nil || f.refused || !current):
		return false, err
	case !current:
		return false, nil
	}
	return true, nil
}

// handleState calls h when the state of a key may have changed.
func (r *References[T]) handleState(h func(types.NamespacedName)) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := &h
	r.handlers = append(slices.Clip(r.handlers), at)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.handlers = slices.DeleteFunc(slices.Clone(r.handlers), func(other *func(types.NamespacedName)) bool {
			return other == at
		})
	}
}

// notify tells the handlers that the state of a key may have changed.
func (r *References[T]) notify(key types.NamespacedName) {
	r.mu.Lock()
	handlers := r.handlers
	r.mu.Unlock()
	for _, h := range handlers {
		(*h)(key)
	}
}

// renew makes the state of all references unknown until they have been listed
// again.
func (r *References[T]) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	r.session.wakeUp()
}

// onSeen calls call when everything up to rv has been delivered of the object
// of key.
func (r *References[T]) onSeen(key types.NamespacedName, rv string, call func()) (cancel func()) {
	r.mu.Lock()
	f := r.refs[key]
	if f == nil || f.dropped || f.hasSeen(rv) {
		r.mu.Unlock()
		call()
		return func() {}
	}
	waiter := &referenceWaiter{rv, call}
	f.waiters = append(f.waiters, waiter)
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		f.waiters = slices.DeleteFunc(f.waiters, func(other *referenceWaiter) bool { return other == waiter })
	}
}

// hasSeen reports whether everything up to rv has been delivered. References.mu
// is held.
func (f *reference[T]) hasSeen(rv string) bool {
	return f.listed && f.sure == f.breaks && !versions.Older(f.delivered, rv)
}

// due removes the waiters whose call is due, and returns them. References.mu is
// held.
func (f *reference[T]) due(all bool) (due []*referenceWaiter) {
	f.waiters = slices.DeleteFunc(f.waiters, func(w *referenceWaiter) bool {
		is := all || f.hasSeen(w.rv)
		if is {
			due = append(due, w)
		}
		return is
	})
	return due
}

// referenceSource lists, watches and converts the objects of a namespace.
type referenceSource[T Object] struct {
	*reflectorStore[T]

	// References.mu guards the fields below.
	used int // by how many references
	// shared is the watch of the namespace, a reference without a name; nil
	// while the references are few.
	shared *reference[T]
	told   bool // that the namespace must not be watched
}

// sourceOf returns the source of a namespace for one more reference.
// References.mu is held.
func (r *References[T]) sourceOf(namespace string) *referenceSource[T] {
	s := r.sources[namespace]
	if s == nil {
		s = &referenceSource[T]{
			reflectorStore: newReflectorStore(&r.in.feed.sink, r.connect(namespace), r.in.feed.log()),
		}
		r.sources[namespace] = s
	}
	s.used++
	r.countUsers(s, namespace)
	return s
}

// leaveSource undoes sourceOf. References.mu is held.
func (r *References[T]) leaveSource(namespace string) {
	if s := r.sources[namespace]; s != nil {
		s.used--
		r.countUsers(s, namespace)
		if s.used == 0 {
			r.dropShared(s)
			delete(r.sources, namespace)
		}
	}
}

// forget removes the object of key, of which nothing is known any longer, or
// which does not exist.
func (s *store[T]) forget(key types.NamespacedName) {
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	var last T
	if it := s.table.Get(key); it != nil {
		last = it.Object
	}
	s.removeLocked(key, last)
}
