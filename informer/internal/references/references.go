// Package references watches those objects of one kind that other objects refer
// to, each by its name. For example, of all Secrets it watches those that an
// Ingress names as its certificate, and the others are neither listed nor cached.
//
//	Hold(key) ──▶ reference ──▶ list and watch by name ──▶ Cache ──▶ handlers
//	                   └──────▶ or the one watch of its namespace, if many
//	                            of its objects are referred to
//
// Every reference has a state of its own: whether its object is known to exist
// or not to exist, an error, and those who wait for it. So a Secret that may not
// be read concerns only the keys that refer to it.
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

// Cache is what the references need of the informer that stores their objects.
type Cache interface { //nolint:interfacebloat // one implementation, and one place that says what it is
	// Kind returns the kind of the objects, for errors.
	Kind() string
	// Connect returns what reads the objects of a namespace, "" for a kind
	// without namespaces. It sends no request.
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
	// After calls done when everything that was stored before has been delivered
	// to the handlers.
	After(done func())
}

// Source reads the objects of a namespace, and puts them into the cache.
type Source interface {
	List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// Object returns an object of a list or of an event, or an error if it is of
	// another type than the cache's.
	Object(of runtime.Object) (metav1.Object, error)
	// Put stores the state of an object, and Remove removes one of which last is
	// the last state. Both call the handlers.
	Put(object metav1.Object) error
	Remove(last metav1.Object) error
}

// Connection is a Source and what is known of it.
type Connection struct {
	Source
	// IsFake is true for fakes of client-go. Their watches begin where they are
	// opened, and their resourceVersions say nothing.
	IsFake bool
	// Err says why the client of the namespace is unusable; nil if it is usable.
	Err error
}

// Options are values of the informer's options.
type Options struct {
	BackoffBase, BackoffCap time.Duration
	// WatchNamespaceAbove is above how many references to objects of a namespace
	// the namespace is watched instead of each object.
	WatchNamespaceAbove int
	// Scope is the scope of the kind; empty if it is not known.
	Scope meta.RESTScopeName
	// Counters count the requests.
	Counters *requests.Counters
}

// Set is the objects that are referred to, each with its watch. It is safe for
// concurrent use.
type Set struct {
	cache   Cache
	options Options

	mu       sync.Mutex // guards the fields below, and those of references where they say so
	refs     map[types.NamespacedName]*reference
	sources  map[string]*source // by namespace
	session  *session           // nil if nobody runs it
	epoch    int                // counts calls of Renew
	newest   string             // resourceVersion that was delivered
	handlers []*func(types.NamespacedName)
}

// New returns an empty set. It starts nothing, see [Set.Run].
func New(cache Cache, o Options) *Set {
	return &Set{
		cache: cache, options: o, refs: map[types.NamespacedName]*reference{}, sources: map[string]*source{},
	}
}

// Hold keeps the object of key cached until Release has been called as often.
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

// Release undoes one call of Hold. The object stays cached for a minute after
// the last one, in case something refers to it again.
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
	f := &reference{key: key, through: r.sourceOf(key.Namespace), epoch: -1}
	switch {
	case r.options.Scope == meta.RESTScopeNameRoot && key.Namespace != "":
		f.wrong = fmt.Errorf("%s %q has a namespace, and the kind has none", r.cache.Kind(), key)
	case r.options.Scope == meta.RESTScopeNameNamespace && key.Namespace == "":
		f.wrong = fmt.Errorf("%s %q has no namespace", r.cache.Kind(), key.Name)
	case f.through.Err != nil:
		f.wrong = f.through.Err
	}
	if shared := f.through.shared; shared != nil {
		shared.wrong = f.wrong // each of these errors is about the namespace
	}
	return f
}

// Holds reports whether the object of key is cached, or will be.
func (r *Set) Holds(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refs[key] != nil
}

// State reports whether it is known that the object of key exists, or that it
// does not exist. If that is not known, the error says why. For example, the
// server forbids to list the object.
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

// OnSeen calls call when everything up to rv has been delivered of the object of
// key. It calls it at once if nothing refers to key.
func (r *Set) OnSeen(key types.NamespacedName, rv string, call func()) (cancel func()) {
	r.mu.Lock()
	f := r.refs[key]
	if f == nil || f.dropped || f.hasSeen(rv) {
		r.mu.Unlock()
		call()
		return func() {}
	}
	w := &waiter{rv, call}
	f.waiters = append(f.waiters, w)
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		f.waiters = slices.DeleteFunc(f.waiters, func(other *waiter) bool { return other == w })
	}
}

// LastResourceVersion returns the newest resourceVersion that was delivered. It
// is empty before the first list.
func (r *Set) LastResourceVersion() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// HasSession reports whether a call of Run has begun, and the last one has not
// yet ended with all that it started.
func (r *Set) HasSession() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session != nil
}

// isRunning reports whether there is a user. mu is held.
func (r *Set) isRunning() bool { return r.session != nil && !r.session.stopping }

// Status describes the references at one moment.
type Status struct {
	Running         bool
	ResourceVersion string // see LastResourceVersion
	// References is how many objects are held, and OpenWatches how many watches
	// are open.
	References, OpenWatches int
	// WatchSince is when the oldest of the open watches was opened, and
	// LastActivity when the least recently active one has last received data.
	WatchSince, LastActivity time.Time
	// Failures are the references that do not work.
	Failures []Failure
}

// Failure is a reference that does not work.
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
		if err := ref.problem(); err != nil && r.session != nil && !ref.isShared() {
			s.Failures = append(s.Failures, Failure{ref.key, err, ref.failing})
		}
	}
	return s
}
