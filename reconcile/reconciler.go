package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/terminal"
)

// Reconciler maintains an invariant: it compares the actual state with the
// desired one, and changes what differs.
//
// It is called for many keys at once, but never twice at once for one key. It
// must be idempotent: it runs again after every change of a watched object,
// after an error, after a restart, and sometimes for no reason at all.
type Reconciler[T informer.Object] interface {
	// Reconcile reconciles one key. Its context ends after
	// Options.ReconcileTimeout, and with the leadership.
	//
	// A returned error is logged and retried with back-off, unless it is
	// [Terminal]; a panic counts as an error. A conflict (HTTP 409) with a
	// stale cache is not a failure at first: the reconcile is retried soon, and
	// only fails if the conflict persists. If the server has asked for a delay
	// (Retry-After), the key is retried after exactly that delay, but after
	// five minutes at the latest. A client that is not of package cluster waits
	// within the call first, up to ten times, and holds the worker meanwhile.
	// If a Result is returned with an error, only the delay of an [After]
	// counts, and with a Terminal error not even that.
	Reconcile(ctx context.Context, request Request[T]) (Result, error)
}

// Func is a function used as a [Reconciler]. [New] refuses a nil one.
type Func[T informer.Object] func(ctx context.Context, request Request[T]) (Result, error)

// Reconcile calls f.
func (f Func[T]) Reconcile(ctx context.Context, request Request[T]) (Result, error) {
	return f(ctx, request)
}

// Key names the object to reconcile. The namespace of a cluster-scoped object
// is empty.
type Key = types.NamespacedName

// Request asks a Reconciler to reconcile one object.
//
// It does not contain the event that led to it, because a level-driven
// controller must not depend on events: they can be merged, missed or repeated.
type Request[T informer.Object] struct {
	// Key is the object's namespace and name.
	Key Key

	object T
	found  bool
}

// Object returns the cached object, as of the start of the reconcile, and
// whether there is one. If not, the object is deleted: clean up its remains.
// Keys from [Mapped], [External] and Enqueue may never have had an object.
//
// An object that is out of the informer's scope does not count as deleted: its
// key is not reconciled, and a log line says so. An object is out of scope if
// its namespace is no longer watched, or has not been listed yet, or if the
// object does not match the label or field selector. With a selector, the
// server is asked when the cache has no object. A key with a namespace is out of
// scope, too, if the kind has no namespaces, as the client, the Go type or the
// cached objects show. Keys without a namespace are reconciled even if the kind
// is namespaced, because such keys are your own and not names of objects.
//
// An API that shows each account only the objects that it may see, such as the
// Projects of OpenShift or a filtering proxy, reports an object as deleted when
// the account loses its access. Ask the server with names.Live before you
// delete what cannot be restored: it returns an error for such an object.
//
// The object is shared with every reader of the cache; do not modify it. Change
// it through package patch, or change a DeepCopy.
func (r Request[T]) Object() (object T, ok bool) { return r.object, r.found }

// WithObject returns a request for object. It is for unit tests that call a
// Reconciler directly: Request[*corev1.Pod]{}.WithObject(pod), or, for a
// deleted object, Request[*corev1.Pod]{Key: key}. The Key of the request is the
// key of object. object must not be nil. Controllers make their own requests.
func (r Request[T]) WithObject(object T) Request[T] {
	return Request[T]{Key: bound.KeyOf(object), object: object, found: true}
}

// Result says when to reconcile the key again without a change. The zero value
// waits for the next change.
type Result struct {
	delay  time.Duration
	repeat bool
}

// After returns a Result that reconciles the key again in d, or earlier if a
// watched object changes. If d is less than 50 ms, the key is reconciled again
// soon, and the delay doubles each time, as for retries, while nothing observed
// changes. Otherwise After(time.Until(x)) would be a busy loop if x were always
// now.
//
// Returned with an error, it replaces the back-off: the key is retried after
// exactly d. A d of less than 50 ms leaves the back-off unchanged. A [Terminal]
// error is not retried, with any d.
func After(d time.Duration) Result {
	if d < firstPause {
		return Result{repeat: true}
	}
	return Result{delay: d}
}

// Terminal marks err as one that a retry cannot fix, such as a contradictory
// spec. The error is logged and counted, and the key is not retried. It is
// reconciled again when a watched object changes, or for a reason other than a
// failure, such as Options.Resync. An error that wraps the result is terminal
// too, and errors.Is and errors.As find err in it. An error that joins several
// errors is terminal only if all of them are, because a retry may fix the
// others. Terminal(nil) is nil.
func Terminal(err error) error { return terminal.Mark(err) }
