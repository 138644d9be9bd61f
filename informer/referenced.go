package informer

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/references"
	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/internal/option"
	namespaces "github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/redact"
	"github.com/homeostat/homeostat/internal/simhook"
)

// References keeps a read-only copy of those objects of one kind that other
// objects refer to. The memory and the permissions that it needs depend on the
// references, not on the size of the cluster. Make one with [Referenced], and
// say what refers to its objects with reconcile.References.
//
// Each object is listed and watched by its name, so permission to list and
// watch that name is enough. This changes if more objects of one namespace are
// referred to than Options.WatchNamespaceAbove allows: the whole namespace is
// then watched if that is permitted. An object that does not exist is watched,
// too. A reference that cannot be watched, for example because that is
// forbidden, affects only the keys that refer to it. The watch is retried until
// it succeeds.
//
// It is safe for concurrent use. The objects it returns are shared; do not
// modify them.
type References[T Object] struct {
	// objects has the cached objects and their handlers. It opens no watch.
	objects *Informer[T]
	// set opens the watches, and writes what they deliver to objects.
	set   *references.Set
	err   error
	reads simhook.Reads // nil except in tests
}

// Referenced returns a cache of the objects to which other objects refer. A
// trigger made by reconcile.References finds the references. clients returns
// the client of a namespace, as for [ForNamespaces]:
//
//	secrets := informer.Referenced(clientset.CoreV1().Secrets, nil)
//
// For a kind without namespaces, clients is called with "". Referenced does not
// start the cache; the controller with that trigger does. A nil o means the
// defaults. Namespaces, Independent, selectors, Whole, IndexLabels and PageSize
// are for informers of whole kinds, and are refused.
func Referenced[C Client[T, L], T Object, L runtime.Object](
	clients func(namespace string) C, o *Options,
) *References[T] {
	objects := ForNamespaces(clients, o)
	connect := objects.feed.connect
	objects.feed.connect = nil // otherwise the kind would count as namespaced
	r := &References[T]{objects: objects, set: newSet(objects, connect)}
	r.err = r.validate()
	if hooks := simhook.Current(); hooks != nil && hooks.Reads != nil {
		r.reads = hooks.Reads
		r.reads.Cache()
	}
	objects.handleUnreadable(r.set.Notify)
	return r
}

func (r *References[T]) validate() error {
	o := r.objects.options
	check := option.Of("informer.Options")
	const whole = "must be empty for informer.Referenced, which watches by name"
	check.That(len(o.Namespaces) == 0, "Namespaces", o.Namespaces, whole)
	check.That(!o.Independent, "Independent", o.Independent, whole)
	check.That(o.LabelSelector == "", "LabelSelector", o.LabelSelector, whole)
	check.That(o.FieldSelector == "", "FieldSelector", o.FieldSelector, whole)
	check.That(!o.Whole, "Whole", o.Whole, whole)
	check.That(len(o.IndexLabels) == 0, "IndexLabels", o.IndexLabels, whole)
	check.That(o.PageSize == 0, "PageSize", o.PageSize, whole)
	return check.Err()
}

// wrong returns an error if the clients or the options cannot be used.
func (r *References[T]) wrong() error {
	if err := r.objects.Parts().Validate(); err != nil {
		return err
	}
	if r.err != nil {
		return fmt.Errorf("checking the references to %s: %w", r.Name(), r.err)
	}
	return nil
}

// Kind returns the kind of the objects, see [Informer.Kind].
func (r *References[T]) Kind() string { return r.objects.Kind() }

// Name returns the name in logs, errors and metrics, such as "secrets".
func (r *References[T]) Name() string { return r.objects.Name() }

// Resource returns the group and the plural name of the resource, see
// [Informer.Resource].
func (r *References[T]) Resource() schema.GroupResource { return r.objects.Resource() }

// Get returns the newest object of key, and whether there is one. In the
// reconcile of an object that refers to key, false means that the object of key
// did not exist when its watch last reported anything. For any other key, false
// proves nothing. The object is shared; do not modify it. Get allocates no
// memory.
func (r *References[T]) Get(key types.NamespacedName) (object T, ok bool) {
	if r.reads != nil && key.Name != "" {
		r.reads.Read(r, key, r.Kind()+" "+strings.TrimPrefix(key.String(), "/"))
	}
	return r.objects.Get(key)
}

// Snapshot returns all cached objects. These are the objects that are referred
// to, and objects whose last reference was removed less than a minute ago. An
// object that is not in the snapshot may exist. Snapshot copies nothing and
// allocates no memory.
func (r *References[T]) Snapshot() Snapshot[T] { return r.objects.Snapshot() }

// Handle calls h for every cached object, and then for every change, as
// [Informer.Handle] does. An object to which nothing refers any longer is
// delivered as Deleted, though it may exist.
func (r *References[T]) Handle(h func(Event[T])) (remove func()) {
	added := r.objects.store.delivery.add(h, r.objects.store.snapshot)
	return func() {
		r.objects.store.delivery.remove(added)
		if !r.set.HasSession() {
			r.objects.feed.clearIfUnused()
		}
	}
}

// CheckMutations compares cached objects with copies of what the server sent,
// see [Informer.CheckMutations].
func (r *References[T]) CheckMutations(keys ...types.NamespacedName) error {
	return r.objects.CheckMutations(keys...)
}

// IsDeleted asks the server, and reports whether the server is known to have no
// object of key. If it returns false, the object may exist or not. IsDeleted
// sends no request and returns false if the object is cached or unreadable, if
// nothing refers to key, if the object has not been listed yet, or if it cannot
// be watched. It always returns false for fakes.
func (r *References[T]) IsDeleted(ctx context.Context, key types.NamespacedName) bool {
	if known, err := r.state(key); !known || err != nil || r.objects.mayExist(key) {
		return false
	}
	comparable, err := r.set.Confirm(ctx, key)
	return err == nil && comparable && !r.objects.mayExist(key) && r.set.Holds(key)
}

// state reports whether the cache knows that the object of key exists, or that
// it does not exist. If it does not know, err may say why. For example, the
// watch is forbidden.
func (r *References[T]) state(key types.NamespacedName) (known bool, err error) {
	if err := r.objects.Unreadable(key); err != nil {
		return false, err
	}
	return r.set.State(key)
}

// Status returns the state of the cache. References is the number of objects
// that the cache holds or waits for, and Problems names the objects that cannot
// be watched. It never waits for a handler or for the server.
func (r *References[T]) Status() Status {
	s, watched := r.objects.Status(), r.set.Status()
	s.Running, s.Synced, s.Reason, s.Referenced = watched.Running, watched.Running, "", true
	if !s.Running {
		s.Reason = requests.ErrNotRunning.Error()
	}
	s.ResourceVersion, s.References, s.OpenWatches = watched.ResourceVersion, watched.References, watched.OpenWatches
	s.WatchSince = requests.Earlier(s.WatchSince, watched.WatchSince)
	s.LastActivity = requests.Earlier(s.LastActivity, watched.LastActivity)
	s.UnauthorizedSince = watched.UnauthorizedSince
	var bad []Problem
	for _, failure := range watched.Failures {
		s.LastError = failure.Err.Error()
		bad = append(bad, problemOf(failure))
	}
	s.Problems = append(s.Problems, firstProblems(bad)...)
	return s
}

// problemOf returns the Problem of a reference that cannot be watched.
func problemOf(f references.Failure) Problem {
	cause := requests.CauseOf(f.Err)
	remedy := requests.RemedyOf(cause)
	if cause == requests.CauseForbidden {
		remedy = "grant the verbs list and watch on this name"
	}
	object := strings.TrimPrefix(f.Key.String(), "/")
	if f.Key.Name == "" {
		object = fmt.Sprintf("namespace %q", f.Key.Namespace)
	}
	return Problem{
		Object: object, Cause: cause, Reason: redact.Text(f.Err.Error()), Remedy: remedy,
		Since: f.Since,
	}
}

// Parts returns the methods that only package reconcile needs.
func (r *References[T]) Parts() namespaces.References { return referenceParts[T]{r} }

// referenceParts implements [namespaces.References].
type referenceParts[T Object] struct{ references *References[T] }

func (p referenceParts[T]) Validate() error { return p.references.wrong() }

func (p referenceParts[T]) Mapping() (meta.RESTMapping, error) { return p.references.objects.mapping() }

func (p referenceParts[T]) Run(ctx context.Context, joined func()) error {
	if err := p.references.wrong(); err != nil {
		return err
	}
	return p.references.set.Run(ctx, joined)
}
func (p referenceParts[T]) Hold(key types.NamespacedName)       { p.references.set.Hold(key) }
func (p referenceParts[T]) Release(key types.NamespacedName)    { p.references.set.Release(key) }
func (p referenceParts[T]) Holds(key types.NamespacedName) bool { return p.references.set.Holds(key) }
func (p referenceParts[T]) Renew()                              { p.references.set.Renew() }
func (p referenceParts[T]) LastResourceVersion() string {
	return p.references.set.LastResourceVersion()
}

func (p referenceParts[T]) State(key types.NamespacedName) (known bool, err error) {
	return p.references.state(key)
}

func (p referenceParts[T]) HandleState(h func(types.NamespacedName)) (remove func()) {
	return p.references.set.HandleState(h)
}

func (p referenceParts[T]) OnSeen(key types.NamespacedName, rv string, f func()) (cancel func()) {
	return p.references.set.OnSeen(key, rv, f)
}

func (p referenceParts[T]) WaitForObject(ctx context.Context, key types.NamespacedName) error {
	if !p.references.set.Holds(key) {
		return nil
	}
	if _, err := p.references.set.Confirm(ctx, key); err != nil && p.references.set.Holds(key) {
		return fmt.Errorf("waiting until the cached %s %q is as new as the server's: %w", p.references.Kind(), key, err)
	}
	return nil
}

// referenceCache implements [references.Cache] with an informer that watches
// nothing itself.
type referenceCache[T Object] struct {
	*Informer[T]

	connect func(namespace string) source
}

func newSet[T Object](objects *Informer[T], connect func(namespace string) source) *references.Set {
	o := references.Options{
		BackoffBase: objects.options.BackoffBase, BackoffCap: objects.options.BackoffCap,
		WatchNamespaceAbove: objects.options.WatchNamespaceAbove, Counters: &objects.counted.Counters,
	}
	if m, _ := objects.mapping(); m.Scope != nil {
		o.Scope = m.Scope.Name()
	}
	return references.New(referenceCache[T]{objects, connect}, o)
}

// Connect implements [references.Cache].
func (c referenceCache[T]) Connect(namespace string) references.Connection {
	src := c.connect(namespace)
	r := newReflectorStore(&c.feed.sink, src, c.feed.log())
	return references.Connection{Source: referenceSource[T]{r}, IsFake: src.fake, Err: src.err}
}

// Begin implements [references.Cache].
func (c referenceCache[T]) Begin(ctx context.Context) logr.Logger { return c.feed.useLog(ctx) }

// End implements [references.Cache].
func (c referenceCache[T]) End(ctx context.Context) error { return c.store.finishMutations(ctx) }

// Clear implements [references.Cache].
func (c referenceCache[T]) Clear() { c.feed.clearIfUnused() }

// Forget implements [references.Cache].
func (c referenceCache[T]) Forget(key types.NamespacedName) { c.store.forget(key) }

// OnDelivered implements [references.Cache].
func (c referenceCache[T]) OnDelivered(done func()) { c.store.delivery.notifyDelivered(done) }

// referenceSource implements [references.Source] with the store of a reflector
// that does not run.
type referenceSource[T Object] struct{ store *reflectorStore[T] }

// List implements [references.Source].
func (s referenceSource[T]) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return s.store.source.list(ctx, opts)
}

// Watch implements [references.Source].
func (s referenceSource[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return s.store.source.watch(ctx, opts)
}

// Object implements [references.Source].
func (s referenceSource[T]) Object(obj runtime.Object) (metav1.Object, error) {
	object, ok := obj.(T)
	if !ok {
		return nil, wrongType[T](obj)
	}
	return object, s.store.admits(object)
}

// Put implements [references.Source].
func (s referenceSource[T]) Put(object metav1.Object) error {
	item, err := s.store.prepare(object)
	if err != nil {
		return err
	}
	store := s.store.sink.store
	if cached, ok := store.snapshot().Get(item.Key); ok && s.store.comparable() && hasOtherContent(cached, item.Object) {
		store.forget(item.Key) // otherwise the equal resourceVersion would look like no change
	}
	store.put(item)
	return nil
}

// Remove implements [references.Source].
func (s referenceSource[T]) Remove(last metav1.Object) error {
	object, _, err := s.store.typed(last)
	if err == nil {
		s.store.sink.store.remove(object)
	}
	return err
}
