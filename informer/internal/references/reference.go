package references

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/versions"
)

// keepUnheld is how long an object stays cached after the last reference to it.
// For example, the Secret of an Ingress that is deleted and created again within
// a minute is not listed again.
const keepUnheld = time.Minute

// reference is an object that is referred to, and the state of its watch.
type reference struct {
	key types.NamespacedName
	// through reads the objects of its namespace.
	through *source
	// wrong says why there can be no such object; nothing is sent then.
	wrong error

	// storing is held while the object is stored and handlers are called with
	// it. So a handler must not wait for another change of the same object.
	storing sync.Mutex
	// dropped is true when the object is no longer stored. It is written under
	// both mutexes.
	dropped bool
	// dropping is true when the object is about to be dropped, unless it is held
	// again. Set.mu guards it.
	dropping bool

	// Set.mu guards the fields below.
	holds  int
	unheld time.Time // when holds became 0
	// listed is true when a list of the object was stored and delivered. epoch
	// was the value of Set.epoch when that list was asked for.
	listed bool
	epoch  int
	// Everything up to the resourceVersion received was received, and everything
	// up to delivered was delivered to handlers.
	received, delivered string
	// breaks counts the ends of watches after which the server may have been
	// restored from a backup. sure was the value of breaks when the last list was
	// asked for. While the two differ, received and delivered may be
	// resourceVersions that the server has lost.
	breaks, sure int
	// resumes is true if the next watch may begin at received.
	resumes bool
	busy    bool // a request is under way, or will be soon
	watch   *openWatch
	// shares is true if the watch of the namespace watches the object, or did so
	// until it ended in time. The reference then has no watch of its own.
	shares bool
	// gap is true if the watch may have begun after received. What happened
	// between the two is missing until the object has been listed.
	gap bool

	// err is the last failure, and nil after a success. failing is when the first
	// failure since then was, and failures counts them. refused is true if the
	// server's answer stays the same until a person changes something.
	err      error
	refused  bool
	failing  time.Time
	failures int
	told     bool      // the handlers know that there is a problem
	again    time.Time // no request is sent before
	waiters  []*waiter
}

// waiter is a call that is due when everything up to rv has been delivered.
type waiter struct {
	rv   string
	call func()
}

// openWatch is an open watch.
type openWatch struct {
	watch.Interface
	stopReading func()
	closing     *sync.WaitGroup
	opened      time.Time
	deadline    time.Time // zero if the server does not end it
	bookmarks   atomic.Bool
	active      atomic.Int64 // in Unix nanoseconds
	stops       sync.Once
}

func (w *openWatch) markActive() { w.active.Store(time.Now().UnixNano()) }

func (w *openWatch) lastActivity() time.Time { return time.Unix(0, w.active.Load()) }

// stalls returns when the watch is replaced if it brings nothing until then, and
// zero if it is never replaced.
func (w *openWatch) stalls() (at time.Time) {
	if w.bookmarks.Load() {
		at = w.lastActivity().Add(requests.WatchIdle)
	}
	return requests.Earlier(at, w.deadline)
}

// stop ends the watch. It does not wait for a connection to be closed.
func (w *openWatch) stop() {
	w.stops.Do(func() {
		w.stopReading()
		w.closing.Go(w.Stop)
	})
}

// problem returns why nothing is known of the object, or why that may soon be
// so. It is nil unless a person has to do something or the failure has lasted.
// For example, a single connection that breaks off is no problem, and a missing
// permission is one at once. Set.mu is held.
func (f *reference) problem() error {
	switch {
	case f.wrong != nil:
		return f.wrong
	case f.err != nil && (f.refused || time.Since(f.failing) >= requests.OutageTime):
		return f.err
	}
	return nil
}

// watchError reports that an object cannot be watched.
type watchError struct {
	kind string
	key  types.NamespacedName
	err  error
}

// Error names the object, and the missing permission.
func (e watchError) Error() string {
	text := fmt.Sprintf("watching %s %q: %v", e.kind, strings.TrimPrefix(e.key.String(), "/"), e.err)
	if apierrors.IsForbidden(e.err) {
		text += " (the verbs list and watch on this name are needed)"
	}
	return text
}

func (e watchError) Unwrap() error { return e.err }

// isRefusal reports whether an error stays until a person changes something. For
// example, a missing permission does, a kind that is not served, and an answer
// that Go cannot decode.
func isRefusal(err error) bool {
	switch requests.CauseOf(err) {
	case requests.CauseForbidden, requests.CauseNotServed:
		return true
	}
	return itemwise.SoundsUndecodable(err) && apierrors.ReasonForError(err) == ""
}

// hasSeen reports whether everything up to rv has been delivered. Set.mu
// is held.
func (f *reference) hasSeen(rv string) bool {
	return f.listed && f.sure == f.breaks && !versions.Older(f.delivered, rv)
}

// due removes the waiters whose call is due, or all of them, and returns them.
// Set.mu is held.
func (f *reference) due(all bool) (due []*waiter) {
	f.waiters = slices.DeleteFunc(f.waiters, func(w *waiter) bool {
		is := all || f.hasSeen(w.rv)
		if is {
			due = append(due, w)
		}
		return is
	})
	return due
}
