// Package references watches those objects of one kind that other objects refer
// to, each by its name. For example, of all Secrets it watches the ones that an
// Ingress names as its certificate, and the others are neither listed nor
// cached.
//
//	Hold(key) ──▶ reference ──▶ list and watch by name ──▶ Cache ──▶ handlers
//	                   └──────▶ or the one watch of its namespace, if many
//	                            of its objects are referred to
//
// Every reference has a state of its own. The state says whether the object is
// known to exist or not to exist, and contains the last error and the calls
// that wait for the object. So a Secret that the program is not allowed to read
// affects only the keys that refer to it.
//
// The informer is behind two interfaces. [Cache] stores the objects and calls
// the handlers, and [Source] reads the objects of a namespace.
package references

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/requests"
)

// Cache contains the methods that the references need from the informer that
// stores their objects.
type Cache interface { //nolint:interfacebloat // it has one implementation
	// Kind returns the kind of the objects, for errors.
	Kind() string
	// Connect returns the connection that reads the objects of a namespace. The
	// namespace is "" for a kind without namespaces. It sends no request.
	Connect(namespace string) Connection
	// Begin is called when the first user begins to run the references. It
	// returns the logger of ctx.
	Begin(ctx context.Context) logr.Logger
	// End is called when the last user has ended. It returns the objects that
	// were modified in place.
	End(ctx context.Context) error
	// Clear removes all objects if there is no handler.
	Clear()
	// Forget removes the object of key, and calls the handlers.
	Forget(key types.NamespacedName)
	// OnDelivered calls done when everything that was stored before has been
	// delivered to the handlers.
	OnDelivered(done func())
}

// Source reads the objects of a namespace, and puts them into the cache.
type Source interface {
	List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// Object returns an object of a list or of an event, or an error if it does
	// not have the type of the cache's objects.
	Object(obj runtime.Object) (metav1.Object, error)
	// Put stores the state of an object. Remove removes an object whose last
	// state is last. The change is delivered to the handlers by this goroutine,
	// or by a different goroutine that is already calling handlers.
	Put(object metav1.Object) error
	Remove(last metav1.Object) error
}

// Connection is the Source of one namespace. It also says whether the Source is
// a fake, and whether it can be used at all.
type Connection struct {
	Source
	// IsFake is true for fakes of client-go. Their watches begin at the state
	// at which they are opened, and their resourceVersions have no meaning.
	IsFake bool
	// Err says why the client of the namespace cannot be used. It is nil if the
	// client can be used.
	Err error
}

// Options contains the informer's options that concern references.
type Options struct {
	BackoffBase, BackoffCap time.Duration
	// WatchNamespaceAbove is the number of objects of one namespace above which
	// they share a watch of the namespace. They share it until their number has
	// fallen to half of the limit. If the server refuses that watch, each
	// object has its own.
	WatchNamespaceAbove int
	// Scope is the scope of the kind; empty if it is not known.
	Scope meta.RESTScopeName
	// Counters count the requests.
	Counters *requests.Counters
}

// Set contains the objects that are referred to, each with its watch. It is
// safe for concurrent use.
type Set struct {
	cache   Cache
	options Options

	mu       sync.Mutex // guards the fields below, and the fields of reference that name it
	refs     map[types.NamespacedName]*reference
	sources  map[string]*source // the sources by namespace
	session  *session           // nil while no call of Run is active
	epoch    int                // counts calls of Renew
	newest   string             // the newest resourceVersion that was delivered
	handlers []*func(types.NamespacedName)
}

// New returns an empty set. It starts nothing, see [Set.Run].
func New(cache Cache, o Options) *Set {
	return &Set{
		cache: cache, options: o, refs: map[types.NamespacedName]*reference{}, sources: map[string]*source{},
	}
}

// Hold keeps the object of key cached until Release has been called once for
// each call of Hold.
func (r *Set) Hold(key types.NamespacedName) {
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

// Release undoes one call of Hold. While the set runs, the object stays cached
// for a minute after its last hold was released, in case something refers to it
// again. The object is dropped at once if the set does not run, and when it
// stops.
func (r *Set) Release(key types.NamespacedName) {
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

// newReference returns the reference to an object. mu is held.
func (r *Set) newReference(key types.NamespacedName) *reference {
	f := &reference{key: key, source: r.sourceOf(key.Namespace), epoch: -1}
	switch {
	case r.options.Scope == meta.RESTScopeNameRoot && key.Namespace != "":
		f.wrong = fmt.Errorf("%s %q has a namespace, but its kind is cluster-scoped", r.cache.Kind(), key)
	case r.options.Scope == meta.RESTScopeNameNamespace && key.Namespace == "":
		f.wrong = fmt.Errorf("%s %q has no namespace, but its kind is namespaced", r.cache.Kind(), key.Name)
	case f.source.Err != nil:
		f.wrong = f.source.Err
	}
	if shared := f.source.shared; shared != nil {
		shared.wrong = f.wrong // each of these errors is about the namespace
	}
	return f
}

// Holds reports whether something refers to the object of key, or did so a
// short time ago. Such an object is cached, or will be. See [Set.Release] for
// that time.
func (r *Set) Holds(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refs[key] != nil
}

// State reports whether it is known that the object of key exists, or that it
// does not exist. If an error is the reason why that is not known, State
// returns the error. For example, the program may not have the permission to
// list the object. Otherwise the error is nil, for example because the object
// has not been listed yet, nothing refers to it, or the set does not run.
func (r *Set) State(key types.NamespacedName) (known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.refs[key]
	if f == nil || !r.isRunning() || f.dropped || f.dropping {
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

// HandleState calls h when the state of a key may have changed, until remove is
// called.
func (r *Set) HandleState(h func(types.NamespacedName)) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	handler := &h
	r.handlers = append(slices.Clip(r.handlers), handler)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.handlers = slices.DeleteFunc(slices.Clone(r.handlers), func(candidate *func(types.NamespacedName)) bool {
			return candidate == handler
		})
	}
}

// Notify tells the handlers of HandleState that the state of a key may have
// changed.
func (r *Set) Notify(key types.NamespacedName) {
	r.mu.Lock()
	handlers := r.handlers
	r.mu.Unlock()
	for _, h := range handlers {
		(*h)(key)
	}
}

// Renew makes the state of all references unknown until they have been listed
// again.
func (r *Set) Renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	r.session.wakeUp()
}

// OnSeen calls notify when all changes of the object of key up to rv have been
// delivered. It calls notify at once if nothing refers to key. It also calls
// notify when the object is dropped or the set stops. cancel ends the wait.
func (r *Set) OnSeen(key types.NamespacedName, rv string, notify func()) (cancel func()) {
	r.mu.Lock()
	f := r.refs[key]
	if f == nil || f.dropped || f.hasSeen(rv) {
		r.mu.Unlock()
		notify()
		return func() {}
	}
	w := &waiter{rv, notify}
	f.waiters = append(f.waiters, w)
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		f.waiters = slices.DeleteFunc(f.waiters, func(candidate *waiter) bool { return candidate == w })
	}
}

// LastResourceVersion returns the newest resourceVersion that was delivered. It
// is empty before the first list.
func (r *Set) LastResourceVersion() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// HasSession reports whether a call of Run is active, or has ended but
// goroutines that it started are still running.
func (r *Set) HasSession() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session != nil
}

// isRunning reports whether a call of Run is active. mu is held.
func (r *Set) isRunning() bool { return r.session != nil && !r.session.stopping }

// Status describes the references at one moment.
type Status struct {
	Running         bool
	ResourceVersion string // see LastResourceVersion
	// References is how many objects are referred to, including objects that
	// are kept after their release. OpenWatches is how many watches are open.
	References, OpenWatches int
	// WatchSince is the time at which the oldest open watch was opened.
	// LastActivity is the last time at which data was received by the watch
	// that has been silent for longest.
	WatchSince, LastActivity time.Time
	// UnauthorizedSince is when the server began to answer every request about
	// an object with 401, after the object had been listed. It is zero if the
	// server does not answer in this way.
	UnauthorizedSince time.Time
	// Failures contains the references whose object cannot be watched, or for
	// which the server has not answered for requests.OutageTime.
	Failures []Failure
}

// Failure describes a reference whose object cannot be watched. The name in Key
// is empty for the watch of a whole namespace.
type Failure struct {
	Key   types.NamespacedName
	Err   error
	Since time.Time
}

// Status returns the state of the references.
func (r *Set) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Running: r.isRunning(), ResourceVersion: r.newest, References: len(r.refs)}
	for ref := range r.watched() {
		if w := ref.watch; w != nil {
			s.OpenWatches++
			s.WatchSince = requests.Earlier(s.WatchSince, w.opened)
			s.LastActivity = requests.Earlier(s.LastActivity, w.lastActivity())
		}
		err, since := ref.problem(), ref.failing
		if ref.isShared() {
			err = nil // the objects are then watched by their names
		}
		hangs := !ref.asked.IsZero() && time.Since(ref.asked) >= requests.OutageTime
		if err == nil && hangs {
			err, since = watchError{r.cache.Kind(), ref.key, requests.ErrNoAnswer}, ref.asked
		}
		if ref.listed && !hangs {
			s.UnauthorizedSince = requests.Earlier(s.UnauthorizedSince, ref.unauthorized)
		}
		if err != nil && r.session != nil {
			s.Failures = append(s.Failures, Failure{ref.key, err, since})
		}
	}
	return s
}
