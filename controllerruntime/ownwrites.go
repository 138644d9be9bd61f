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
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
)

// longestHold is how long a reconcile waits for its own writes at most.
const longestHold = 10 * time.Second

// SeeOwnWrites returns a reconciler that calls r and then holds the key until
// the cache of a manager, or of any other cluster, has seen what r wrote. So
// the next reconcile of the key never reads a state from before its own writes.
// kinds are examples of what r writes and reads from the cache. They are
// watched, as For and Owns do:
//
//	mgr, err := ctrl.NewManager(controllerruntime.ObserveWrites(config), options)
//	r, err := controllerruntime.SeeOwnWrites(ctx, mgr, reconciler, &appsv1.Deployment{}, &corev1.Service{})
//	err = ctrl.NewControllerManagedBy(mgr).For(…).Owns(…).Complete(r)
//
// The key is held by its worker, usually for a few milliseconds and for ten
// seconds at most; then the log names what was not seen. r must pass on its
// context to the client. What r returns is returned.
//
// Errors: a cluster whose config is not one of [ObserveWrites], and kinds that
// the scheme does not know or the server does not serve.
func SeeOwnWrites[R comparable](
	ctx context.Context, of cluster.Cluster, r reconcile.TypedReconciler[R], kinds ...client.Object,
) (reconcile.TypedReconciler[R], error) {
	if !isObserved(of.GetHTTPClient(), of.GetConfig()) {
		return nil, errNotObserved
	}
	s := &seeing[R]{inner: r, kinds: map[schema.GroupResource]*seenKind{}}
	for _, example := range kinds {
		k, err := newSeenKind(ctx, of, example)
		if err != nil {
			return nil, fmt.Errorf("watching own writes of %T: %w", example, err)
		}
		s.kinds[k.resource] = k
	}
	return s, nil
}

var errNotObserved = errors.New(
	"watching own writes: the config of the manager is not one of controllerruntime.ObserveWrites")

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
		if !w.of.await(waiting, w) {
			missing = append(missing, w.of.resource.String()+" "+w.key.String())
		}
		w.of.remove(w)
	}
	if len(missing) > 0 && ctx.Err() == nil {
		log.FromContext(ctx).Info("the cache has not seen own writes in time, going on", "writes", missing)
	}
	return result, err
}

// made is the writes of one reconcile.
type made struct {
	kinds map[schema.GroupResource]*seenKind

	mu     sync.Mutex // guards the fields below, and the outcome of writes
	writes []*ownWrite
	ended  bool
}

var _ ownwrites.Observer = (*made)(nil)

// ownWrite is a write, and what the cache has shown of its object since.
type ownWrite struct {
	of      *seenKind
	key     types.NamespacedName
	deletes bool
	outcome ownwrites.Outcome
	uid     types.UID
	rv      string
	// seenKind.mu guards the fields below.
	gone    string // the resourceVersion at which the cache has last removed the object
	changed chan struct{}
}

// Sending implements [ownwrites.Observer].
func (m *made) Sending(of ownwrites.Write) func(ownwrites.Outcome, *answer.Object) {
	k := m.kinds[of.Resource]
	m.mu.Lock()
	defer m.mu.Unlock()
	if k == nil || m.ended {
		return func(ownwrites.Outcome, *answer.Object) {}
	}
	w := &ownWrite{
		of: k, key: types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, deletes: of.Delete,
		outcome: ownwrites.Uncertain, changed: make(chan struct{}, 1),
	}
	m.writes = append(m.writes, w)
	k.add(w)
	return func(outcome ownwrites.Outcome, object *answer.Object) { m.answered(w, outcome, object) }
}

func (m *made) answered(w *ownWrite, outcome ownwrites.Outcome, object *answer.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended { // it is waited for as a write of which nothing is known
		return
	}
	w.outcome = outcome
	if object == nil {
		return
	}
	w.uid, w.rv = object.UID, object.ResourceVersion
	if w.deletes && outcome == ownwrites.Written && len(object.Finalizers) == 0 {
		w.outcome = ownwrites.Accepted // the answer may have the resourceVersion from before
	}
	if w.key.Name == "" && object.Name != "" {
		w.of.remove(w)
		w.key = types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		w.of.add(w)
	}
}

// end returns the writes that may have changed an object.
func (m *made) end() []*ownWrite {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	return slices.DeleteFunc(m.writes, func(w *ownWrite) bool {
		without := w.outcome == ownwrites.Refused || w.key.Name == ""
		if without {
			w.of.remove(w)
		}
		return without
	})
}

// Wrote is for clients without an observing transport.
func (*made) Wrote(metav1.Object, ownwrites.Content) {}

// Deleted is for clients without an observing transport.
func (*made) Deleted(metav1.Object) {}

// FieldManager leaves the field manager to the client.
func (*made) FieldManager() string { return "" }

// seenKind is a kind whose own writes are waited for.
type seenKind struct {
	example  client.Object
	gvk      schema.GroupVersionKind
	resource schema.GroupResource
	cached   client.Reader
	live     client.Reader

	mu     sync.Mutex // guards the fields below
	writes map[types.NamespacedName][]*ownWrite
}

func newSeenKind(ctx context.Context, of cluster.Cluster, example client.Object) (*seenKind, error) {
	gvk, err := apiutil.GVKForObject(example, of.GetScheme())
	if err != nil {
		return nil, err
	}
	mapping, err := of.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	k := &seenKind{
		example: example, gvk: gvk, resource: mapping.Resource.GroupResource(), cached: of.GetCache(),
		live: of.GetAPIReader(), writes: map[types.NamespacedName][]*ownWrite{},
	}
	informer, err := of.GetCache().GetInformer(ctx, example, cache.BlockUntilSynced(false))
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
	k.writes[w.key] = slices.DeleteFunc(k.writes[w.key], func(other *ownWrite) bool { return other == w })
	if len(k.writes[w.key]) == 0 {
		delete(k.writes, w.key)
	}
}

// observe notes an event of the cache.
func (k *seenKind) observe(of any, deleted bool) {
	if last, ok := of.(toolscache.DeletedFinalStateUnknown); ok {
		of = last.Obj
	}
	object, ok := of.(client.Object)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.writes[client.ObjectKeyFromObject(object)] {
		if deleted {
			w.gone = object.GetResourceVersion()
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// await reports whether the cache has seen a write when it returns.
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

// ask asks the server for the outcome of a write.
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

// shows reports whether a cached object is the one that a write left, or a
// later one.
func (k *seenKind) shows(w *ownWrite, object client.Object) bool {
	if w.outcome == ownwrites.Written {
		return !isOlder(object.GetResourceVersion(), w.rv)
	}
	another := w.uid != "" && object.GetUID() != w.uid
	return another || w.outcome == ownwrites.Accepted && object.GetDeletionTimestamp() != nil
}

// lacks reports whether a cache without the object has seen the write.
func (k *seenKind) lacks(w *ownWrite) bool {
	if w.outcome != ownwrites.Written {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return w.gone != "" && !isOlder(w.gone, w.rv)
}

// isOlder reports whether a resourceVersion is older than another one, as far as
// they can be compared.
func isOlder(rv, than string) bool {
	order, err := resourceversion.CompareResourceVersion(rv, than)
	return err == nil && order < 0
}
