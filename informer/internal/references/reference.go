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

// keepUnheld is how long an object stays cached after the last reference to it
// was removed, and how long the watch of a namespace stays open after it was
// last needed. For example, the Secret of an Ingress that is deleted and
// created again within a minute is not listed again.
const keepUnheld = time.Minute

// reference is an object that is referred to, and the state of its watch.
type reference struct {
	key types.NamespacedName
	// source reads the objects of the object's namespace.
	source *source
	// wrong says why the object cannot be requested: no such object can exist,
	// or the client of its namespace cannot be used. If it is set, no request
	// is sent.
	wrong error

	// storing is held while the object is stored and handlers are called with
	// it. So a handler must not wait for another change of the same object.
	storing sync.Mutex
	// dropped is true when the object is no longer stored. To change it, both
	// storing and Set.mu must be held. For the watch of a namespace, which has
	// no object, Set.mu is enough.
	dropped bool
	// dropping is true when the object is about to be dropped, unless it is
	// held again. Set.mu guards it.
	dropping bool

	// Set.mu guards the fields below.

	holds  int       // number of calls of Hold that Release has not undone
	unheld time.Time // when the last hold was released
	// listed is true when a list of the object was stored and delivered. epoch
	// was the value of Set.epoch when that list was requested.
	listed bool
	epoch  int
	// received is the resourceVersion up to which all changes were received,
	// and delivered is the resourceVersion up to which all changes were
	// delivered to handlers.
	received, delivered string
	// breaks counts the ends of watches, and the failures to open one, after
	// which the server may have been restored from a backup. sure was the value
	// of breaks when the last list was requested. While the two differ,
	// received and delivered may be resourceVersions that the server has lost.
	breaks, sure int
	// resumes is true if the next watch may begin at received.
	resumes bool
	busy    bool // a request is under way, or will be soon
	// asked is when the last request began, if busy is true and the request has
	// begun. It is zero otherwise.
	asked time.Time
	watch *openWatch
	// shares is true if the watch of the namespace watches the object, or did
	// so until it ended at its timeout. The reference then has no watch of its
	// own.
	shares bool
	// gap is true if the watch may have begun after received. The changes in
	// between are missing until the object has been listed.
	gap bool

	// err is the last failure, and nil after a success. failing is the time of
	// the first failure since then. failures counts the failures since a watch
	// last stayed open for requests.Steady: a watch that opens and soon ends
	// again must not shorten the pauses. refused is true if the server's answer
	// stays the same until a person changes something.
	err          error
	refused      bool
	failing      time.Time
	failures     int
	unauthorized time.Time // when the server began to answer each request with 401; zero if it does not
	told         bool      // the handlers were notified of the problem
	retryAt      time.Time // no request is sent before this time
	waiters      []*waiter
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
	deadline    time.Time // when the server must have ended the watch; zero for fakes
	bookmarks   atomic.Bool
	active      atomic.Int64 // when the watch was opened or last delivered data, in Unix nanoseconds
	stops       sync.Once
}

func (w *openWatch) markActive() { w.active.Store(time.Now().UnixNano()) }

func (w *openWatch) lastActivity() time.Time { return time.Unix(0, w.active.Load()) }

// stalls returns the time at which the watch is replaced: at its deadline or,
// if that is earlier and the server sends bookmarks, when the watch has been
// silent for requests.WatchIdle. It returns zero if the watch is never
// replaced.
func (w *openWatch) stalls() (deadline time.Time) {
	if w.bookmarks.Load() {
		deadline = w.lastActivity().Add(requests.WatchIdle)
	}
	return requests.Earlier(deadline, w.deadline)
}

// stop ends the watch. It does not wait for a connection to be closed.
func (w *openWatch) stop() {
	w.stops.Do(func() {
		w.stopReading()
		w.closing.Go(w.Stop)
	})
}

// problem returns the reason why the state of the object is unknown, or may
// soon be unknown. It returns nil unless a person has to do something or the
// failure has lasted for a while. For example, a single connection that breaks
// off is not a problem, but a missing permission is a problem at once. Set.mu
// is held.
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

// Error returns a message that names the object or, for the watch of a
// namespace, the namespace. If the server forbids the watch of an object, the
// message also names the missing permission.
func (e watchError) Error() string {
	if e.key.Name == "" {
		return fmt.Sprintf("watching %s of namespace %q: %v", e.kind, e.key.Namespace, e.err)
	}
	text := fmt.Sprintf("watching %s %q: %v", e.kind, strings.TrimPrefix(e.key.String(), "/"), e.err)
	if apierrors.IsForbidden(e.err) {
		text += " (the verbs list and watch on this name are needed)"
	}
	return text
}

func (e watchError) Unwrap() error { return e.err }

// isRefusal reports whether an error stays until a person changes something.
// Examples are a missing permission, a kind that is not served, and an answer
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

// takeDue removes the waiters whose call is due, or all waiters if force is
// true, and returns them. Set.mu is held.
func (f *reference) takeDue(force bool) (due []*waiter) {
	f.waiters = slices.DeleteFunc(f.waiters, func(w *waiter) bool {
		isDue := force || f.hasSeen(w.rv)
		if isDue {
			due = append(due, w)
		}
		return isDue
	})
	return due
}
