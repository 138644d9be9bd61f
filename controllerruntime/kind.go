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

// kind is a kind on demand, in one representation. It is also the informer of
// that kind, see informer.go.
type kind struct {
	form
	by      *onDemand
	mapping *meta.RESTMapping
	scope   scope
	refs    *informer.References[informer.Object]
	ctx     context.Context //nolint:containedctx // ends when the kind stops
	cancel  context.CancelFunc

	mu      sync.Mutex // guards the fields below
	reads   map[types.NamespacedName]*reading
	fields  map[string]client.IndexerFunc
	handled // what handlers know
}

// reading is an object that was read, and is held since.
type reading struct {
	last    time.Time     // of its reads
	waiting int           // Gets that wait for it
	changed chan struct{} // closed when its state may have changed; nil if nobody waits
	// rv is the resourceVersion of the last write of the manager's client. asks
	// says that the answer to a write had none, so the server must be asked.
	// written counts the writes.
	rv      string
	asks    bool
	written int
}

// newKind returns a kind that does not run yet.
func newKind(by *onDemand, f form) (*kind, error) {
	mapping, err := by.options.Mapper.RESTMapping(f.gvk.GroupKind(), f.gvk.Version)
	if err != nil {
		return nil, err
	}
	k := &kind{
		form: f, by: by, mapping: mapping, reads: map[types.NamespacedName]*reading{},
		fields: map[string]client.IndexerFunc{}, handled: newHandled(),
	}
	if k.scope, err = scopeOf(&by.options, f.gvk, k.isNamespaced()); err != nil {
		return nil, err
	}
	if _, err := newList(by.options.Scheme, f.gvk, f.as); err != nil {
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

// reader returns what reads a namespace. It is called only for namespaces in
// scope.
func (k *kind) reader(namespace string) *reader {
	config, _ := k.scope.in(namespace)
	return &reader{of: k, namespace: namespace, config: config, resource: k.mapping.Resource}
}

// newObject returns an empty object of the kind.
func (k *kind) newObject() client.Object {
	switch k.as {
	case dynamic:
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(k.gvk)
		return object
	case metadataOnly:
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(k.gvk)
		return object
	default:
		object, err := k.by.options.Scheme.New(k.gvk)
		if err != nil { // it was made before
			return &metav1.PartialObjectMetadata{}
		}
		return object.(client.Object) //nolint:forcetypeassert // the scheme knows the kind by an example
	}
}

// run watches what is read until ctx ends or the kind stops.
func (k *kind) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	k.listen()
	var running sync.WaitGroup
	running.Go(func() { k.expire(ctx) })
	_ = k.refs.Parts().Run(ctx, func() {}) // it has logged which objects were modified in place
	k.stop()
	running.Wait()
	k.endListeners()
}

// stop drops everything.
func (k *kind) stop() {
	k.cancel()
	k.mu.Lock()
	held := k.reads
	k.reads = map[types.NamespacedName]*reading{}
	k.known = map[types.NamespacedName]informer.Object{}
	k.mu.Unlock()
	for key, r := range held {
		k.refs.Parts().Release(key)
		r.wake()
	}
}

// wake wakes those who wait for a change.
func (r *reading) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// get reads the object of key into out.
func (k *kind) get(ctx context.Context, key types.NamespacedName, out client.Object, o *client.GetOptions) error {
	if !k.by.isStarted() {
		return &cache.ErrCacheNotStarted{}
	}
	if !k.isNamespaced() {
		key.Namespace = ""
	}
	config, err := k.scope.in(key.Namespace)
	if err != nil {
		return err
	}
	if key.Name == "" || k.isNamespaced() && key.Namespace == "" {
		return k.notFound(key)
	}
	if err := k.await(ctx, key); err != nil {
		return fmt.Errorf("reading %s %q: %w", k.gvk.Kind, key, err)
	}
	object, ok := k.refs.Get(key)
	if !ok {
		return k.notFound(key)
	}
	shared := isTrue(config.UnsafeDisableDeepCopy) || isTrue(o.UnsafeDisableDeepCopy)
	if !shared {
		object = object.DeepCopyObject().(informer.Object) //nolint:forcetypeassert // it is of the same type
	}
	to, from := reflect.ValueOf(out), reflect.ValueOf(object)
	if !from.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("reading %s %q: the cache has a %T, and %T was asked for", k.gvk.Kind, key, object, out)
	}
	to.Elem().Set(from.Elem())
	if !shared {
		out.GetObjectKind().SetGroupVersionKind(k.gvk)
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

func (k *kind) notFound(key types.NamespacedName) error {
	return apierrors.NewNotFound(k.mapping.Resource.GroupResource(), key.Name)
}

// await holds the object of key, and returns when the cache has it as the
// server had it after the last write of the manager's client, or knows that
// there is none.
func (k *kind) await(ctx context.Context, key types.NamespacedName) error {
	r, isNew := k.hold(key)
	defer k.rest(r)
	if isNew {
		k.deliver(key) // it may be there still
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

// hold notes a read of key, which lasts until rest.
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

// rest notes the end of a read.
func (k *kind) rest(r *reading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.waiting--
	r.last = time.Now()
}

// change returns a channel that is closed when the state of a reading may have
// changed.
func (k *kind) change(r *reading) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// changed delivers what has changed, and wakes who waits for it.
func (k *kind) changed(key types.NamespacedName) {
	k.deliver(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.reads[key]; r != nil {
		r.wake()
	}
}

// awaitWrites returns when the cache has seen the writes to key.
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

// expire drops what has not been read for long, until ctx ends.
func (k *kind) expire(ctx context.Context) {
	every := time.NewTicker(max(k.by.Keep/8, time.Millisecond))
	defer every.Stop()
	for {
		select {
		case <-every.C:
			for _, key := range k.forgetUnread() {
				k.refs.Parts().Release(key)
			}
		case <-ctx.Done():
			return
		}
	}
}

// forgetUnread forgets what has not been read for long, and returns its keys.
func (k *kind) forgetUnread() (unread []types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, r := range k.reads {
		keep := k.by.Keep
		if k.isWatched() {
			keep = k.by.KeepAbsent
		}
		if _, exists := k.known[key]; exists && k.isWatched() || r.waiting > 0 || time.Since(r.last) < keep {
			continue
		}
		delete(k.reads, key)
		delete(k.known, key)
		unread = append(unread, key)
	}
	return unread
}
