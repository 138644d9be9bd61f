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
// objects refer to: memory and permissions follow what is referred to, and not
// the size of the cluster. Make one with [Referenced], and say what refers to
// it with reconcile.References.
//
// Each object is listed and watched by its name, so the verbs list and watch on
// that name are enough. An object that does not exist is watched, too. A
// reference that cannot be watched, for example because that is forbidden,
// concerns only the keys that refer to it, and is tried again until it can.
//
// It is safe for concurrent use. The objects it returns are shared; do not
// modify them.
type References[T Object] struct {
	// in has the store, its handlers and the names. It watches nothing itself.
	in *Informer[T]
	// set watches the objects.
	set   *references.Set
	err   error
	reads simhook.Reads // nil but in tests
}

// Referenced returns a cache of those objects that reconcile.References says
// other objects refer to. of returns the client of a namespace, as for
// [ForNamespaces]:
//
//	secrets := informer.Referenced(clientset.CoreV1().Secrets, nil)
//
// For a kind without namespaces, of is called with "". It starts nothing; a
// controller with a trigger made by reconcile.References runs it. A nil o means
// the defaults. Namespaces, selectors, Whole, IndexLabels and PageSize are for
// informers of whole kinds, and are refused.
func Referenced[C Client[T, L], T Object, L runtime.Object](of func(namespace string) C, o *Options) *References[T] {
	in := ForNamespaces(of, o)
	connect := in.feed.connect
	in.feed.connect = nil // the scope is that of the kind
	r := &References[T]{in: in, set: newSet(in, connect)}
	r.err = r.validate()
	if hooks := simhook.Current(); hooks != nil {
		r.reads = hooks.Reads
	}
	in.handleUnreadable(r.set.Notify)
	return r
}

func (r *References[T]) validate() error {
	o := r.in.options
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

// wrong returns everything that is wrong with the options and the client,
// joined, or nil.
func (r *References[T]) wrong() error {
	if err := r.in.Parts().Validate(); err != nil {
		return err
	}
	if r.err != nil {
		return fmt.Errorf("references to %s: %w", r.Name(), r.err)
	}
	return nil
}

// Kind returns the kind of the objects, see [Informer.Kind].
func (r *References[T]) Kind() string { return r.in.Kind() }

// Name returns the name in logs, errors and metrics, such as "secrets".
func (r *References[T]) Name() string { return r.in.Name() }

// Resource returns the group and the plural name of the resource, see
// [Informer.Resource].
func (r *References[T]) Resource() schema.GroupResource { return r.in.Resource() }

// Get returns the newest object of key, and whether there is one. In the
// reconcile of an object that refers to key, false means that there was no such
// object when the watch last heard of it. For any other key it means nothing.
// The object is shared; do not modify it. It allocates nothing.
func (r *References[T]) Get(key types.NamespacedName) (object T, ok bool) {
	if r.reads != nil && key.Name != "" {
		r.reads.Read(r, key, r.Kind()+" "+strings.TrimPrefix(key.String(), "/"))
	}
	return r.in.Get(key)
}

// Snapshot returns all objects that are held: those referred to and those that
// have been until a minute ago. That an object is missing there proves nothing.
// It copies and allocates nothing.
func (r *References[T]) Snapshot() Snapshot[T] { return r.in.Snapshot() }

// Handle calls h for every change from now on, as [Informer.Handle] does. An
// object to which nothing refers any longer is delivered as Deleted, though it
// may exist.
func (r *References[T]) Handle(h func(Event[T])) (remove func()) {
	added := r.in.store.delivery.add(h, r.in.store.snapshot)
	return func() {
		r.in.store.delivery.remove(added)
		if !r.set.HasSession() {
			r.in.feed.clearIfUnused()
		}
	}
}

// CheckMutations compares cached objects with copies of what the server sent, see
// [Informer.CheckMutations].
func (r *References[T]) CheckMutations(keys ...types.NamespacedName) error {
	return r.in.CheckMutations(keys...)
}

// IsDeleted reports whether the server has no object of key, by one request, or
// none if the answer must be false: an object is cached, or nothing refers to
// key, or its watch has no first list. false means that it is not known. It is
// always false for fakes.
func (r *References[T]) IsDeleted(ctx context.Context, key types.NamespacedName) bool {
	if known, err := r.state(key); !known || err != nil || r.in.mayExist(key) {
		return false
	}
	comparable, err := r.set.Confirm(ctx, key)
	return err == nil && comparable && !r.in.mayExist(key) && r.set.Holds(key)
}

// state reports whether it is known that the object of key exists, or that it
// does not exist.
func (r *References[T]) state(key types.NamespacedName) (known bool, err error) {
	if err := r.in.Unreadable(key); err != nil {
		return false, err
	}
	return r.set.State(key)
}

// Status returns the state of the cache. References is how many objects are
// held, and Problems names those that cannot be watched. It never waits for a
// handler or for the server.
func (r *References[T]) Status() Status {
	s, now := r.in.Status(), r.set.Status()
	s.Running, s.Synced, s.Reason, s.Referenced = now.Running, now.Running, "", true
	if !s.Running {
		s.Reason = requests.ErrNotRunning.Error()
	}
	s.ResourceVersion, s.References, s.OpenWatches = now.ResourceVersion, now.References, now.OpenWatches
	s.WatchSince = requests.Earlier(s.WatchSince, now.WatchSince)
	s.LastActivity = requests.Earlier(s.LastActivity, now.LastActivity)
	var bad []Problem
	for _, failure := range now.Failures {
		s.LastError = failure.Err.Error()
		bad = append(bad, problemOf(failure))
	}
	s.Problems = append(s.Problems, firstProblems(bad)...)
	return s
}

// problemOf describes a reference that does not work.
func problemOf(f references.Failure) Problem {
	cause := requests.CauseOf(f.Err)
	remedy := requests.RemedyOf(cause)
	if cause == requests.CauseForbidden {
		remedy = "grant the verbs list and watch on this name"
	}
	return Problem{
		Object: strings.TrimPrefix(f.Key.String(), "/"), Cause: cause, Reason: redact.Text(f.Err.Error()), Remedy: remedy,
		Since: f.Since,
	}
}

// Parts returns what only package reconcile needs.
func (r *References[T]) Parts() namespaces.References { return referenceParts[T]{r} }

// referenceParts implements [namespaces.References].
type referenceParts[T Object] struct{ of *References[T] }

func (p referenceParts[T]) Validate() error { return p.of.wrong() }

func (p referenceParts[T]) Mapping() (meta.RESTMapping, error) { return p.of.in.mapping() }

func (p referenceParts[T]) Run(ctx context.Context, joined func()) error {
	if err := p.of.wrong(); err != nil {
		return err
	}
	return p.of.set.Run(ctx, joined)
}
func (p referenceParts[T]) Hold(key types.NamespacedName)       { p.of.set.Hold(key) }
func (p referenceParts[T]) Release(key types.NamespacedName)    { p.of.set.Release(key) }
func (p referenceParts[T]) Holds(key types.NamespacedName) bool { return p.of.set.Holds(key) }
func (p referenceParts[T]) Renew()                              { p.of.set.Renew() }
func (p referenceParts[T]) LastResourceVersion() string         { return p.of.set.LastResourceVersion() }

func (p referenceParts[T]) State(key types.NamespacedName) (known bool, err error) {
	return p.of.state(key)
}

func (p referenceParts[T]) HandleState(h func(types.NamespacedName)) (remove func()) {
	return p.of.set.HandleState(h)
}

func (p referenceParts[T]) OnSeen(key types.NamespacedName, rv string, f func()) (cancel func()) {
	return p.of.set.OnSeen(key, rv, f)
}

func (p referenceParts[T]) WaitForObject(ctx context.Context, key types.NamespacedName) error {
	if !p.of.set.Holds(key) {
		return nil
	}
	if _, err := p.of.set.Confirm(ctx, key); err != nil && p.of.set.Holds(key) {
		return fmt.Errorf("waiting until the cache has %s %q as the server has it: %w", p.of.Kind(), key, err)
	}
	return nil
}

// referenceCache implements [references.Cache] with an informer that watches
// nothing itself.
type referenceCache[T Object] struct {
	*Informer[T]

	connect func(namespace string) source
}

func newSet[T Object](in *Informer[T], connect func(namespace string) source) *references.Set {
	o := references.Options{
		BackoffBase: in.options.BackoffBase, BackoffCap: in.options.BackoffCap,
		WatchNamespaceAbove: in.options.WatchNamespaceAbove, Counters: &in.counted.Counters,
	}
	if m, _ := in.mapping(); m.Scope != nil {
		o.Scope = m.Scope.Name()
	}
	return references.New(referenceCache[T]{in, connect}, o)
}

// Connect implements [references.Cache].
func (c referenceCache[T]) Connect(namespace string) references.Connection {
	from := c.connect(namespace)
	r := newReflectorStore(&c.feed.sink, from, c.feed.log())
	return references.Connection{Source: referenceSource[T]{r}, IsFake: from.fake, Err: from.err}
}

// Begin implements [references.Cache].
func (c referenceCache[T]) Begin(ctx context.Context) logr.Logger { return c.feed.useLog(ctx) }

// End implements [references.Cache].
func (c referenceCache[T]) End(ctx context.Context) error { return c.store.finishMutations(ctx) }

// Clear implements [references.Cache].
func (c referenceCache[T]) Clear() { c.feed.clearIfUnused() }

// Forget implements [references.Cache].
func (c referenceCache[T]) Forget(key types.NamespacedName) { c.store.forget(key) }

// After implements [references.Cache].
func (c referenceCache[T]) After(done func()) { c.store.delivery.after(done) }

// referenceSource implements [references.Source] with the store of a reflector
// that does not run.
type referenceSource[T Object] struct{ of *reflectorStore[T] }

// List implements [references.Source].
func (s referenceSource[T]) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return s.of.source.list(ctx, opts)
}

// Watch implements [references.Source].
func (s referenceSource[T]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return s.of.source.watch(ctx, opts)
}

// Object implements [references.Source].
func (s referenceSource[T]) Object(of runtime.Object) (metav1.Object, error) {
	object, ok := of.(T)
	if !ok {
		return nil, wrongType[T](of)
	}
	return object, nil
}

// Put implements [references.Source].
func (s referenceSource[T]) Put(object metav1.Object) error {
	it, err := s.of.prepare(object)
	if err != nil {
		return err
	}
	store := s.of.sink.store
	if cached, ok := store.snapshot().Get(it.Key); ok && s.of.comparable() && hasOtherContent(cached, it.Object) {
		store.forget(it.Key) // or the equal resourceVersion would look like no change
	}
	store.put(it)
	return nil
}

// Remove implements [references.Source].
func (s referenceSource[T]) Remove(last metav1.Object) error {
	object, _, err := s.of.typed(last)
	if err == nil {
		s.of.sink.store.remove(object)
	}
	return err
}
