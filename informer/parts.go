package informer

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/keyspace"
	namespaces "github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/internal/slots"
)

// Parts returns the methods for other packages of this module, such as package
// reconcile.
func (i *Informer[T]) Parts() namespaces.Cache { return parts[T]{i} }

// parts implements [namespaces.Cache].
type parts[T Object] struct{ informer *Informer[T] }

// Shards returns the methods for a replica that works on some shards of the
// keys.
func (p parts[T]) Shards() slots.Cache { return shards[T](p) }

// Validate returns the errors of the options and the client, joined, or nil.
func (p parts[T]) Validate() error {
	if p.informer.err == nil {
		return nil
	}
	return fmt.Errorf("checking the informer of %s: %w", p.informer.Name(), p.informer.err)
}

// Mapping returns the kind, the resource and the scope of the objects, as far
// as they are known.
func (p parts[T]) Mapping() (meta.RESTMapping, error) { return p.informer.mapping() }

// InScope reports whether the cache could have an object with this key.
func (p parts[T]) InScope(key types.NamespacedName) bool { return p.informer.inScope(key) }

// OnSeen calls f once, as soon as all changes of a namespace up to a
// resourceVersion have been stored and delivered.
func (p parts[T]) OnSeen(namespace, resourceVersion string, f func()) (cancel func()) {
	return p.informer.onSeen(namespace, resourceVersion, f)
}

// HandleUnreadable calls h with the key of each object that is unreadable,
// becomes unreadable, or becomes readable again.
func (p parts[T]) HandleUnreadable(h func(key types.NamespacedName)) (remove func()) {
	return p.informer.handleUnreadable(h)
}

// RunWhole runs the informer for a user of all objects; see [Informer.Run]. It
// calls joined, unless that is nil, when it has joined the other calls. From
// then on HasSynced and WaitForSync take this user into account.
func (p parts[T]) RunWhole(ctx context.Context, joined func()) error {
	return run(ctx, p.informer, nil, joined)
}

// Independent reports whether Options.Independent is set.
func (p parts[T]) Independent() bool { return p.informer.options.Independent }

// Shown reports whether it is known which namespaces the informer reads.
func (p parts[T]) Shown() bool {
	return !slices.ContainsFunc(p.informer.feed.currentSources(), func(s source) bool {
		return s.reach.Certainty == clients.Unknown
	})
}

// Simulated reports whether the objects do not come from an API server.
func (p parts[T]) Simulated() bool {
	return slices.ContainsFunc(p.informer.feed.currentSources(), source.isSimulated)
}

// Reads reports whether the informer reads objects of namespace, and whether
// that is known.
func (p parts[T]) Reads(namespace string) (reads, known bool) {
	return p.informer.feed.reads(namespace)
}

// Absent returns why the cache does not have the object of key, or
// [namespaces.Cached] if it has the object.
//
// If the kind has namespaces, no object has a key without a namespace. Such a
// key is one that the caller has made for its own purposes, so Absent does not
// report it as out of scope.
func (p parts[T]) Absent(ctx context.Context, key types.NamespacedName) (namespaces.Absence, error) {
	i := p.informer
	if key.Namespace == "" && !i.inScope(key) && i.namespaced() {
		return namespaces.Deleted, nil
	}
	watch, part := i.feed.watchOf(key.Namespace), i.feed.part()
	switch reads, _ := i.feed.reads(key.Namespace); {
	case !reads, !i.admits(key),
		part != nil && (watch == nil || key.Namespace != "" && !keyspace.Has(part.Complete(), key.Namespace)):
		return namespaces.OutOfScope, nil
	case watch == nil || !watch.progress.synced.Load():
		return namespaces.Unsynced, nil
	}
	if _, cached := i.Get(key); cached {
		return namespaces.Cached, nil
	}
	// The cache drops the objects of a namespace that is no longer in scope.
	if i.feed.watchOf(key.Namespace) != watch {
		return namespaces.Unsynced, nil
	}
	if watch.source.follows != nil || i.options.LabelSelector == "" && i.scope.onlyKeys() {
		return namespaces.Deleted, nil
	}
	exists, err := watch.exists(ctx, key)
	if err != nil {
		return namespaces.OutOfScope, fmt.Errorf("checking whether %q is deleted or does not match the selectors of the "+
			"informer of %s: %w", key, i.Name(), err)
	}
	if exists {
		return namespaces.OutOfScope, nil
	}
	return namespaces.Deleted, nil
}

// namespaced reports whether the kind is known to have namespaces.
func (i *Informer[T]) namespaced() bool {
	m, _ := i.mapping()
	return m.Scope != nil && m.Scope.Name() == meta.RESTScopeNameNamespace
}

// onlyKeys reports whether the field selector only uses the name and the
// namespace.
func (s scope) onlyKeys() bool {
	return !slices.ContainsFunc(s.fields.Requirements(), func(r fields.Requirement) bool {
		return r.Field != "metadata.name" && r.Field != "metadata.namespace"
	})
}

// exists reports whether the server has the object of key, whether or not the
// selectors match it.
func (r *reflectorStore[T]) exists(ctx context.Context, key types.NamespacedName) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	list := func(o metav1.ListOptions) (runtime.Object, error) { return r.source.list(ctx, o) }
	found := false
	_, err := requests.EachObject(metav1.ListOptions{FieldSelector: selecting(key, "")}, list,
		func(obj runtime.Object) error {
			if object, ok := obj.(T); ok { // fakes ignore field selectors
				found = found || bound.KeyOf(object) == key
			}
			return nil
		})
	return found, err
}

// WaitForStart returns when all watches have stored and delivered their first
// lists. If the namespaces are independent, it returns when one of them has
// been listed.
func (p parts[T]) WaitForStart(ctx context.Context) error {
	i := p.informer
	if i.err != nil || !i.options.Independent {
		return i.WaitForSync(ctx)
	}
	if err := i.feed.waitUntil(ctx, i.feed.hasStarted); err != nil {
		return fmt.Errorf("waiting for the first list of %s: %w", i.Name(), err)
	}
	return nil
}

// Unreadable returns the identity, the labels and the owners of each unreadable
// object.
func (p parts[T]) Unreadable() []metav1.ObjectMeta { return p.informer.store.unreadable.metadata() }

// SyncedIn reports whether the cache is complete in namespace.
func (p parts[T]) SyncedIn(namespace string) bool { return p.informer.feed.syncedIn(namespace) }

// WaitForSyncIn returns when SyncedIn is true.
func (p parts[T]) WaitForSyncIn(ctx context.Context, namespace string) error {
	return p.informer.feed.waitForSyncIn(ctx, namespace)
}

// WaitForLatestIn returns when the objects of namespace are at least as new as
// the server's were at the call.
func (p parts[T]) WaitForLatestIn(ctx context.Context, namespace string) error {
	return p.informer.waitForLatest(ctx, &types.NamespacedName{Namespace: namespace})
}

// WaitForLatestElsewhere calls WaitForLatestIn for each namespace that has been
// listed by a watch of its own and is not in apart. If a single watch reads all
// namespaces, it waits for all objects instead.
func (p parts[T]) WaitForLatestElsewhere(ctx context.Context, apart map[string]bool) error {
	watches, _ := p.informer.feed.current()
	for _, r := range watches {
		namespace := r.source.namespace
		if namespace == "" { // the only watch
			return p.informer.WaitForLatest(ctx)
		}
		if apart[namespace] || !r.progress.synced.Load() {
			continue
		}
		if err := p.WaitForLatestIn(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// Missing returns the namespaces that have not been listed yet.
func (p parts[T]) Missing() (names []string) {
	watches, _ := p.informer.feed.current()
	for _, r := range watches {
		if !r.progress.synced.Load() {
			names = append(names, r.source.namespace)
		}
	}
	return names
}

// Unwell returns the errors of failing watches by their namespaces.
func (p parts[T]) Unwell() map[string]error {
	unwell := map[string]error{}
	watches, _ := p.informer.feed.current()
	for _, r := range watches {
		if err := r.progress.failing(); err != nil {
			unwell[r.source.namespace] = err
		}
	}
	return unwell
}

// WellIn reports whether the watch of namespace has its first list and is not
// failing.
func (p parts[T]) WellIn(namespace string) bool {
	r := p.informer.feed.watchOf(namespace)
	return r != nil && r.progress.synced.Load() && r.progress.failing() == nil
}
