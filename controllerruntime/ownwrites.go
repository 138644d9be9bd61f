package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/rvorder"
)

// longestHold is the longest time that a reconcile waits for its own writes.
const longestHold = 10 * time.Second

// SeeOwnWrites returns a reconciler that calls r and then holds the key until
// the cache of a manager, or of any other cluster, has seen what r wrote. So
// the next reconcile of the key does not read a state from before these writes,
// unless it takes the cache more than ten seconds to see them. kinds are
// examples of what r writes and reads from the cache. They are watched, as For
// and Owns do:
//
//	mgr, err := ctrl.NewManager(controllerruntime.ObserveWrites(config), options)
//	r, err := controllerruntime.SeeOwnWrites(ctx, mgr, reconciler, &appsv1.Deployment{}, &corev1.Service{})
//	err = ctrl.NewControllerManagedBy(mgr).For(…).Owns(…).Complete(r)
//
// The key is held by its worker, usually for a few milliseconds and for ten
// seconds at most; then the log names what was not seen. So leave out a kind
// whose selectors in the manager's cache exclude objects that r writes: a
// reconcile that creates or changes such an object takes ten seconds longer.
// The deletion of a collection is not waited for. r must pass on its context to
// the client. The result and the error of r are returned unchanged.
//
// SeeOwnWrites returns an error if the cluster's config was not made by
// [ObserveWrites], or if a kind is not known to the scheme or not served by the
// server.
func SeeOwnWrites[R comparable](
	ctx context.Context, c cluster.Cluster, r reconcile.TypedReconciler[R], kinds ...client.Object,
) (reconcile.TypedReconciler[R], error) {
	if !isObserved(c.GetHTTPClient(), c.GetConfig()) {
		return nil, errNotObserved
	}
	s := &seeing[R]{inner: r, kinds: map[schema.GroupResource]*seenKind{}}
	for _, example := range kinds {
		k, err := newSeenKind(ctx, c, example)
		if err != nil {
			return nil, fmt.Errorf("watching own writes of %T: %w", example, err)
		}
		s.kinds[k.resource] = k
	}
	return s, nil
}

var errNotObserved = errors.New(
	"watching own writes: the config of the manager was not made by controllerruntime.ObserveWrites")

// seeing is a reconciler that waits for its own writes.
type seeing[R comparable] struct {
	inner reconcile.TypedReconciler[R]
	kinds map[schema.GroupResource]*seenKind
}

// Reconcile implements [reconcile.TypedReconciler].
func (s *seeing[R]) Reconcile(ctx context.Context, r R) (reconcile.Result, error) {
	made := &made{kinds: s.kinds}
	result, err := s.inner.Reconcile(ownwrites.NewContext(ctx, made), r)
	waiting, cancel := context.WithTimeout(ctx, longestHold)
	defer cancel()
	var missing []string
	for _, w := range made.end() {
		if !w.kind.await(waiting, w) {
			missing = append(missing, w.kind.resource.String()+" "+w.key.String())
		}
		w.kind.remove(w)
	}
	if len(missing) > 0 && ctx.Err() == nil {
		log.FromContext(ctx).Info("the cache did not see the reconcile's own writes in time, continuing", "writes", missing)
	}
	return result, err
}

// made records the writes of one reconcile.
type made struct {
	kinds map[schema.GroupResource]*seenKind

	mu     sync.Mutex // guards the fields below and, until end, what an answer changes in an ownWrite
	writes []*ownWrite
	ended  bool
}

var _ ownwrites.Observer = (*made)(nil)

// ownWrite is a write, and what the cache has shown of its object since.
type ownWrite struct {
	kind    *seenKind
	key     types.NamespacedName
	deletes bool
	outcome ownwrites.Outcome
	uid     types.UID
	rv      string
	// seenKind.mu guards the fields below.

	removedAt string // the resourceVersion at which the cache has last removed the object
	changed   chan struct{}
}

// Sending implements [ownwrites.Observer].
func (m *made) Sending(write ownwrites.Write) func(ownwrites.Outcome, *answer.Object) {
	k := m.kinds[write.Resource]
	m.mu.Lock()
	defer m.mu.Unlock()
	if k == nil || m.ended {
		return func(ownwrites.Outcome, *answer.Object) {}
	}
	w := &ownWrite{
		kind: k, key: types.NamespacedName{Namespace: write.Namespace, Name: write.Name}, deletes: write.Delete,
		outcome: ownwrites.Uncertain, changed: make(chan struct{}, 1),
	}
	m.writes = append(m.writes, w)
	k.add(w)
	return func(outcome ownwrites.Outcome, object *answer.Object) { m.answered(w, outcome, object) }
}

func (m *made) answered(w *ownWrite, outcome ownwrites.Outcome, object *answer.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended { // Reconcile treats the write as a write without an answer
		return
	}
	w.outcome = outcome
	if object == nil {
		return
	}
	w.uid, w.rv = object.UID, object.ResourceVersion
	if w.deletes && outcome == ownwrites.Written && len(object.Finalizers) == 0 {
		w.outcome = ownwrites.Accepted // the answer may have the resourceVersion from before the deletion
	}
	if w.key.Name == "" && object.Name != "" {
		w.kind.remove(w)
		w.key = types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		w.kind.add(w)
	}
}

// end ends the recording, and returns the writes that the cache must show. It
// leaves out refused writes, and writes without the name of an object, such as
// the deletion of a collection.
func (m *made) end() []*ownWrite {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	return slices.DeleteFunc(m.writes, func(w *ownWrite) bool {
		harmless := w.outcome == ownwrites.Refused || w.key.Name == ""
		if harmless {
			w.kind.remove(w)
		}
		return harmless
	})
}

// Wrote has no effect. It is for clients without an observing transport.
func (*made) Wrote(metav1.Object, ownwrites.Content) {}

// Deleted has no effect. It is for clients without an observing transport.
func (*made) Deleted(metav1.Object) {}

// FieldManager leaves the field manager to the client.
func (*made) FieldManager() string { return "" }

// seenKind watches a kind, so that a reconcile can wait for its own writes to
// objects of that kind.
type seenKind struct {
	example  client.Object
	gvk      schema.GroupVersionKind
	resource schema.GroupResource
	cached   client.Reader
	live     client.Reader

	mu     sync.Mutex // guards the fields below
	writes map[types.NamespacedName][]*ownWrite
}

func newSeenKind(ctx context.Context, c cluster.Cluster, example client.Object) (*seenKind, error) {
	gvk, err := apiutil.GVKForObject(example, c.GetScheme())
	if err != nil {
		return nil, err
	}
	mapping, err := c.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	k := &seenKind{
		example: example, gvk: gvk, resource: mapping.Resource.GroupResource(), cached: c.GetCache(),
		live: c.GetAPIReader(), writes: map[types.NamespacedName][]*ownWrite{},
	}
	informer, err := c.GetCache().GetInformer(ctx, example, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.observe(o, false) },
		UpdateFunc: func(_, o any) { k.observe(o, false) },
		DeleteFunc: func(o any) { k.observe(o, true) },
	})
	return k, err
}

func (k *seenKind) add(w *ownWrite) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes[w.key] = append(k.writes[w.key], w)
}

func (k *seenKind) remove(w *ownWrite) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes[w.key] = slices.DeleteFunc(k.writes[w.key], func(candidate *ownWrite) bool { return candidate == w })
	if len(k.writes[w.key]) == 0 {
		delete(k.writes, w.key)
	}
}

// observe wakes the reconciles that wait for an event of the object. If the
// object was deleted, it first records the resourceVersion of the deletion in
// their writes.
func (k *seenKind) observe(obj any, deleted bool) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	object, ok := obj.(client.Object)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.writes[client.ObjectKeyFromObject(object)] {
		if deleted {
			w.removedAt = object.GetResourceVersion()
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// await waits until the cache has seen a write. It returns false if ctx ends
// first, or if the outcome of the write is unknown and the server does not tell
// it.
func (k *seenKind) await(ctx context.Context, w *ownWrite) bool {
	if w.outcome == ownwrites.Uncertain && !k.ask(ctx, w) {
		return false
	}
	for {
		object, _ := k.example.DeepCopyObject().(client.Object)
		switch err := k.cached.Get(ctx, w.key, object); {
		case err == nil && k.shows(w, object), err != nil && client.IgnoreNotFound(err) == nil && k.lacks(w):
			return true
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return false
		}
	}
}

// ask asks the server for the outcome of a write, and reports whether the
// outcome is now known.
func (k *seenKind) ask(ctx context.Context, w *ownWrite) bool {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(k.gvk)
	switch err := k.live.Get(ctx, w.key, object); {
	case err == nil:
		w.outcome, w.deletes, w.uid, w.rv = ownwrites.Written, false, object.UID, object.ResourceVersion
	case absent.Proven(err, k.resource, w.key.Name):
		w.outcome, w.deletes, w.uid = ownwrites.Removed, true, ""
	default:
		return false
	}
	return true
}

// shows reports whether a cached object shows a write. After a deletion, the
// object must be a recreated one. If the server has only accepted the deletion,
// a deletionTimestamp is enough. After any other write, the object must be at
// least as new as the written state.
func (k *seenKind) shows(w *ownWrite, object client.Object) bool {
	if w.outcome == ownwrites.Written {
		return !rvorder.Older(object.GetResourceVersion(), w.rv)
	}
	recreated := w.uid != "" && object.GetUID() != w.uid
	return recreated || w.outcome == ownwrites.Accepted && object.GetDeletionTimestamp() != nil
}

// lacks reports whether a cache that does not have the object has seen the
// write. It reports true after a deletion. After any other write, the cache
// must have removed the object since, at the resourceVersion of the write or a
// newer one.
func (k *seenKind) lacks(w *ownWrite) bool {
	if w.outcome != ownwrites.Written {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return w.removedAt != "" && !rvorder.Older(w.removedAt, w.rv)
}
