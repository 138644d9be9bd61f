package informer

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/option"
	namespaces "github.com/homeostat/homeostat/internal/parts"
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
	in      *Informer[T]
	connect func(namespace string) source
	err     error
	reads   simhook.Reads // nil but in tests

	mu       sync.Mutex // guards the fields below, and those of references where they say so
	refs     map[types.NamespacedName]*reference[T]
	sources  map[string]*referenceSource[T] // by namespace
	session  *referenceSession[T]           // nil if nobody runs it
	epoch    int                            // counts calls of Renew
	newest   string                         // resourceVersion that was delivered
	handlers []*func(types.NamespacedName)  // of states
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
	r := &References[T]{
		in: in, connect: in.feed.connect,
		refs: map[types.NamespacedName]*reference[T]{}, sources: map[string]*referenceSource[T]{},
	}
	in.feed.connect = nil // the scope is that of the kind
	r.err = r.validate()
	if hooks := simhook.Current(); hooks != nil {
		r.reads = hooks.Reads
	}
	in.handleUnreadable(r.notify)
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
		r.mu.Lock()
		running := r.session != nil
		r.mu.Unlock()
		if !running {
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
	comparable, err := r.confirm(ctx, key)
	return err == nil && comparable && !r.in.mayExist(key) && r.holds(key)
}

// Status returns the state of the cache. References is how many objects are
// held, and Problems names those that cannot be watched. It never waits for a
// handler or for the server.
func (r *References[T]) Status() Status {
	s := r.in.Status()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Running = r.session != nil && !r.session.stopping
	s.Synced, s.Reason, s.ResourceVersion, s.Referenced = s.Running, "", r.newest, true
	if !s.Running {
		s.Reason = errNotRunning.Error()
	}
	s.References = len(r.refs)
	var bad []Problem
	for ref := range r.watched() {
		if w := ref.watch; w != nil {
			s.OpenWatches++
			s.WatchSince = earlier(s.WatchSince, w.opened)
			s.LastActivity = earlier(s.LastActivity, w.lastActivity())
		}
		if err := ref.problem(); err != nil && r.session != nil && !ref.isShared() {
			s.LastError = err.Error()
			bad = append(bad, problemOf(ref.key, err, ref.failing))
		}
	}
	s.Problems = append(s.Problems, firstProblems(bad)...)
	return s
}

// Parts returns what only package reconcile needs.
func (r *References[T]) Parts() namespaces.References { return referenceParts[T]{r} }

// referenceParts implements [namespaces.References].
type referenceParts[T Object] struct{ of *References[T] }

func (p referenceParts[T]) Validate() error { return p.of.wrong() }

func (p referenceParts[T]) Mapping() (meta.RESTMapping, error) { return p.of.in.mapping() }

func (p referenceParts[T]) Run(ctx context.Context, joined func()) error {
	return p.of.run(ctx, joined)
}
func (p referenceParts[T]) Hold(key types.NamespacedName)       { p.of.hold(key) }
func (p referenceParts[T]) Release(key types.NamespacedName)    { p.of.release(key) }
func (p referenceParts[T]) Holds(key types.NamespacedName) bool { return p.of.holds(key) }
func (p referenceParts[T]) Renew()                              { p.of.renew() }

func (p referenceParts[T]) State(key types.NamespacedName) (known bool, err error) {
	return p.of.state(key)
}

func (p referenceParts[T]) HandleState(h func(types.NamespacedName)) (remove func()) {
	return p.of.handleState(h)
}

func (p referenceParts[T]) OnSeen(key types.NamespacedName, rv string, f func()) (cancel func()) {
	return p.of.onSeen(key, rv, f)
}

func (p referenceParts[T]) WaitForObject(ctx context.Context, key types.NamespacedName) error {
	if !p.of.holds(key) {
		return nil
	}
	if _, err := p.of.confirm(ctx, key); err != nil && p.of.holds(key) {
		return fmt.Errorf("waiting until the cache has %s %q as the server has it: %w", p.of.Kind(), key, err)
	}
	return nil
}

func (p referenceParts[T]) LastResourceVersion() string {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.of.newest
}
