package controllerruntime

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/informer"
)

// kind caches on demand the objects of one kind, in one representation: typed,
// unstructured or metadata-only. It is also the informer of that kind, see
// informer.go.
type kind struct {
	form
	cache   *onDemand
	mapping *meta.RESTMapping
	scope   scope
	refs    *informer.References[informer.Object]
	ctx     context.Context //nolint:containedctx // ends when the kind stops
	cancel  context.CancelFunc

	mu      sync.Mutex // guards the fields below
	reads   map[types.NamespacedName]*reading
	fields  map[string]client.IndexerFunc
	handled // see informer.go
}

// reading records the Gets of one key. The cache holds the key, even if no
// object has it, until the reading is removed.
type reading struct {
	last    time.Time     // when a Get of the object last began or ended
	waiting int           // number of Gets in progress
	changed chan struct{} // closed when the object's state may have changed; nil until a Get needs it
	// rv is the newest resourceVersion that the manager's client has written
	// and no Get has waited for yet. asks is set if the next Get must ask the
	// server, because a write has no resourceVersion to wait for. For example,
	// the answer to a deletion may lack it. written counts the writes.
	rv      string
	asks    bool
	written int
}

// newKind returns a kind that does not run yet.
func newKind(cache *onDemand, f form) (*kind, error) {
	mapping, err := cache.options.Mapper.RESTMapping(f.gvk.GroupKind(), f.gvk.Version)
	if err != nil {
		return nil, err
	}
	k := &kind{
		form: f, cache: cache, mapping: mapping, reads: map[types.NamespacedName]*reading{},
		fields: map[string]client.IndexerFunc{}, handled: newHandled(),
	}
	if k.scope, err = scopeOf(&cache.options, f.gvk, k.isNamespaced()); err != nil {
		return nil, err
	}
	if _, err := newList(cache.options.Scheme, f.gvk, f.shape); err != nil {
		return nil, err
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.refs = informer.Referenced(k.reader, &informer.Options{
		Kind: f.gvk.Kind, Name: mapping.Resource.Resource, Scope: mapping.Scope.Name(),
	})
	if err := k.refs.Parts().Validate(); err != nil {
		return nil, err
	}
	k.refs.Handle(func(e informer.Event[informer.Object]) {
		object := e.New
		if e.Type == informer.Deleted {
			object = e.Old
		}
		k.deliver(client.ObjectKeyFromObject(object))
	})
	k.refs.Parts().HandleState(k.changed)
	return k, nil
}

func (k *kind) isNamespaced() bool { return k.mapping.Scope.Name() == meta.RESTScopeNameNamespace }

// reader returns the client that reads a namespace. The namespace must be in
// scope.
func (k *kind) reader(namespace string) *reader {
	config, _ := k.scope.configFor(namespace)
	return &reader{kind: k, namespace: namespace, config: config, resource: k.mapping.Resource}
}

// newObject returns an empty object of the kind.
func (k *kind) newObject() client.Object {
	switch k.shape {
	case dynamic:
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(k.gvk)
		return object
	case metadataOnly:
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(k.gvk)
		return object
	default:
		object, err := k.cache.options.Scheme.New(k.gvk)
		if err != nil { // cannot happen: newKind has checked the scheme
			return &metav1.PartialObjectMetadata{}
		}
		return object.(client.Object) //nolint:forcetypeassert // the scheme knows the kind by an example
	}
}

// run watches the objects that were read, until ctx ends or the kind stops.
func (k *kind) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	k.listen()
	var running sync.WaitGroup
	running.Go(func() { k.expire(ctx) })
	_ = k.refs.Parts().Run(ctx, func() {}) // Run has logged which objects were modified in place
	k.stop()
	running.Wait()
	k.endListeners()
}

// stop ends the kind, and drops all of its objects.
func (k *kind) stop() {
	k.cancel()
	k.mu.Lock()
	held := k.reads
	k.reads = map[types.NamespacedName]*reading{}
	k.delivered = map[types.NamespacedName]informer.Object{}
	k.mu.Unlock()
	for key, r := range held {
		k.refs.Parts().Release(key)
		r.wake()
	}
}

// wake wakes the Gets that wait for a change.
func (r *reading) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// get reads the object of key into out.
func (k *kind) get(ctx context.Context, key types.NamespacedName, out client.Object, o *client.GetOptions) error {
	if !k.cache.isStarted() {
		return &cache.ErrCacheNotStarted{}
	}
	if !k.isNamespaced() {
		key.Namespace = ""
	}
	config, err := k.scope.configFor(key.Namespace)
	if err != nil {
		return err
	}
	if key.Name == "" || k.isNamespaced() && key.Namespace == "" {
		return k.notFound(key)
	}
	if err := k.await(ctx, key); err != nil {
		return fmt.Errorf("reading %s %q: %w", k.gvk.Kind, key, unproven(err))
	}
	object, ok := k.refs.Get(key)
	if !ok {
		return k.notFound(key)
	}
	shared := isTrue(config.UnsafeDisableDeepCopy) || isTrue(o.UnsafeDisableDeepCopy)
	if !shared {
		object = object.DeepCopyObject().(informer.Object) //nolint:forcetypeassert // a copy has the same type
	}
	target, source := reflect.ValueOf(out), reflect.ValueOf(object)
	if !source.Type().AssignableTo(target.Type()) {
		return fmt.Errorf("reading %s %q: the cache has a %T, not a %T", k.gvk.Kind, key, object, out)
	}
	target.Elem().Set(source.Elem())
	if !shared {
		out.GetObjectKind().SetGroupVersionKind(k.gvk)
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

func (k *kind) notFound(key types.NamespacedName) error {
	return apierrors.NewNotFound(k.mapping.Resource.GroupResource(), key.Name)
}

// unproven returns err, the error of a list, as an error that is no NotFound. A
// reconciler would take a NotFound for the deletion of the object, but a server
// never answers a list with 404 because an object does not exist. Such a 404
// has another cause. For example, the server does not serve the version yet, or
// the answer is a proxy's page.
func unproven(err error) error {
	if apierrors.IsNotFound(err) { //nolint:forbidigo // proves nothing: the status is removed
		return fmt.Errorf("it is not known which objects exist: %v", err) //nolint:errorlint // without the status
	}
	return err
}

// await makes the cache hold the object of key. It then waits until the cache
// knows whether the object exists, and has seen the writes of the manager's
// client to it. It returns an error if the object cannot be read, or if ctx or
// the kind ends first.
func (k *kind) await(ctx context.Context, key types.NamespacedName) error {
	r, isNew := k.hold(key)
	defer k.release(r)
	if isNew {
		k.deliver(key) // the cache may still have the object
	}
	for {
		changed := k.change(r)
		known, err := k.refs.Parts().State(key)
		if err != nil {
			return err
		}
		if known {
			return k.awaitWrites(ctx, key, r)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-k.ctx.Done():
			return errStopped
		}
	}
}

// hold records the start of a Get of key. The end of the Get must be recorded
// with release. At the first Get of key, hold makes the cache hold the object,
// and isNew is true.
func (k *kind) hold(key types.NamespacedName) (r *reading, isNew bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r = k.reads[key]
	if r == nil {
		r, isNew = &reading{}, true
		k.reads[key] = r
		k.refs.Parts().Hold(key)
	}
	r.waiting++
	r.last = time.Now()
	return r, isNew
}

// release records the end of a Get.
func (k *kind) release(r *reading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.waiting--
	r.last = time.Now()
}

// change returns a channel that is closed when the state of the reading's
// object may have changed.
func (k *kind) change(r *reading) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// changed tells the handlers about a change of the object of key, and wakes the
// Gets that wait for it.
func (k *kind) changed(key types.NamespacedName) {
	k.deliver(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.reads[key]; r != nil {
		r.wake()
	}
}

// awaitWrites waits until the cache has seen the client's writes to the object
// of key.
func (k *kind) awaitWrites(ctx context.Context, key types.NamespacedName, r *reading) error {
	k.mu.Lock()
	rv, asks, written := r.rv, r.asks, r.written
	k.mu.Unlock()
	switch {
	case asks:
		if err := k.refs.Parts().WaitForObject(ctx, key); err != nil {
			return err
		}
	case rv != "":
		seen := make(chan struct{})
		cancel := k.refs.Parts().OnSeen(key, rv, func() { close(seen) })
		select {
		case <-seen:
		case <-ctx.Done():
			cancel()
			return context.Cause(ctx)
		case <-k.ctx.Done():
			cancel()
			return errStopped
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.written == written {
		r.rv, r.asks = "", false
	}
	return nil
}

// expire drops objects that have not been read for a while, until ctx ends. See
// forgetUnread.
func (k *kind) expire(ctx context.Context) {
	ticker := time.NewTicker(max(k.cache.Keep/8, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, key := range k.forgetUnread() {
				k.refs.Parts().Release(key)
			}
		case <-ctx.Done():
			return
		}
	}
}

// forgetUnread removes the keys that have not been read for Keep, and returns
// them. If the kind has handlers besides the handler of the manager's own
// client, it removes only keys without an object, after KeepAbsent. A key that
// a Get is waiting for stays.
func (k *kind) forgetUnread() (unread []types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, r := range k.reads {
		keep := k.cache.Keep
		if k.isWatched() {
			keep = k.cache.KeepAbsent
		}
		if _, exists := k.delivered[key]; exists && k.isWatched() || r.waiting > 0 || time.Since(r.last) < keep {
			continue
		}
		delete(k.reads, key)
		delete(k.delivered, key)
		unread = append(unread, key)
	}
	return unread
}
