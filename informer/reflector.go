package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/internal/clients"
	"github.com/homeostat/homeostat/informer/internal/dropin"
	"github.com/homeostat/homeostat/informer/internal/follow"
	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/intern"
	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/wire"
)

// calm is how long a watch must last for the back-off to start again.
const calm = 2 * time.Minute

// sink is the part of an informer that its watches write to.
type sink[T Object] struct {
	options  *Options
	identity *identity
	counted  *counters
	store    *store[T]
	marks    versions.Marks
	// brought contains the namespaces of the objects that sources have brought,
	// for sources that do not show which namespaces they read.
	brought *sync.Map
	// complete reports whether all watches have stored and delivered their
	// first list.
	complete func() bool
}

// updateSynced computes again whether the informer has synced. It is called
// after the first list of a watch, and after each change of the watches, the
// shards and the users.
func (s *sink[T]) updateSynced() { s.marks.SetSynced(s.complete) }

// reflectorStore is the store of client-go's Reflector. It puts the objects of
// one source into the informer's store.
type reflectorStore[T Object] struct {
	sink     *sink[T]
	source   source
	progress *progress
	specs    specReader[T]
	into     contents[T]
	part     partial.Cache[T]  // nil if the cache is whole
	dropin   *dropin.Client[T] // the client of a shared informer, otherwise nil
	settings dropin.Settings   // the settings of dropin when the reflector started
	proof    versions.Proof
	watched  watched
	clockMu  sync.Mutex // guards clock
	clock    serverClock
	// consistent reports whether the last list was as new as the server at the
	// time of its request.
	consistent atomic.Bool
	// lists counts the lists in flight. The reflector may leave one behind when
	// it ends.
	lists  requests.Calls
	ctx    context.Context //nolint:containedctx // additional requests end with it
	cancel context.CancelFunc
	// ended is closed when the goroutines of the watch have ended.
	ended chan struct{}

	// Only the reflector's goroutine uses the fields below.
	// pending is a function that stores the last list. It is nil after that.
	pending func()
	// streamed contains the fingerprints of the specs of a streaming list's
	// objects.
	streamed map[any]wire.Fingerprint
}

func newReflectorStore[T Object](target *sink[T], from source, log logr.Logger) *reflectorStore[T] {
	r := &reflectorStore[T]{
		sink: target, source: from, into: whole[T]{target.store, from.namespace}, ended: make(chan struct{}),
		progress: &progress{
			source: from, counted: target.counted, log: log, wake: make(chan struct{}, 1),
		},
		specs: specReader[T]{source: from, options: target.options, store: target.store},
	}
	if client, ok := from.dropin.(*dropin.Client[T]); ok {
		r.dropin, r.into = client, observed[T]{target.store, client.Observer}
	}
	return r
}

// example returns an empty object, from which the reflector learns the type. It
// is nil if the objects may have any type.
func (r *reflectorStore[T]) example() any {
	if r.dropin != nil {
		return r.dropin.Example
	}
	return clients.Example[T]()
}

// run lists and watches, or follows another cache, until ctx ends.
func (r *reflectorStore[T]) run(ctx context.Context) {
	if client, ok := r.source.follows.(*follow.Client[T]); ok {
		if err := client.Follow(ctx, follower[T]{r}); err != nil {
			r.progress.failed(ctx, err)
			<-ctx.Done()
		}
		return
	}
	defer r.lists.Wait()
	o := r.sink.options
	backoff := wait.Backoff{Duration: o.BackoffBase, Cap: o.BackoffCap, Steps: 1 << 10, Factor: 2, Jitter: 1}
	pauses := requests.Clock{Context: ctx}
	lw := &cache.ListWatch{ListWithContextFunc: r.listPage, WatchFuncWithContext: r.openWatch}
	listerWatcher := cache.ToListWatcherWithWatchListSemantics(lw, r)
	if r.dropin != nil {
		r.settings = r.dropin.Settings()
	}
	reflector := cache.NewReflectorWithOptions(listerWatcher, r.example(), r, cache.ReflectorOptions{
		Logger:          &r.progress.log,
		Name:            r.sink.identity.Name(),
		TypeDescription: r.settings.Description,
		ResyncPeriod:    r.settings.ResyncPeriod,
		Backoff:         &backoff,
		Clock:           pauses,
	})
	reflector.WatchListPageSize, reflector.ShouldResync = o.PageSize, r.settings.ShouldResync
	// The pauses end with ctx, so the only error is ctx's.
	_ = backoff.DelayWithReset(pauses, calm).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := requests.ErrGoexit
		var running sync.WaitGroup
		running.Go(func() { err = reflector.ListAndWatchWithContext(ctx) }) // in a goroutine that a handler may end
		running.Wait()
		if err != nil && !errors.Is(err, requests.ErrRestored) { // requests.ErrRestored has been logged
			r.progress.failed(ctx, err)
		}
		if err != nil && r.settings.Failed != nil {
			r.settings.Failed(ctx, reflector, err)
		}
		return false, nil
	})
}

// listPage sends a request for a list or for one page of a list.
func (r *reflectorStore[T]) listPage(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if !r.lists.Begin() {
		return nil, context.Cause(ctx)
	}
	defer r.lists.End()
	if opts.Continue == "" {
		r.watched.opening()
	}
	r.forgetTime(&opts)
	r.selects(&opts)
	if r.part != nil {
		r.part.SelectList(&opts)
	}
	r.progress.begin(phaseList)
	limited, d := requests.WithDeadline(ctx, requests.WatchIdle, 0)
	defer d.End()
	list, err := r.list(limited, opts)
	if err != nil && errors.Is(context.Cause(limited), requests.ErrNoAnswer) {
		err = requests.ErrNoAnswer
	}
	r.progress.answered(ctx, err)
	if err != nil {
		r.sink.updateSynced() // independent namespaces do not wait for this one
		return list, err
	}
	r.consistent.Store(false)
	if r.source.mayShare() {
		list = list.DeepCopyObject()
	}
	if r.dropin != nil {
		return r.unpacked(list)
	}
	// Transform each page before the next is received, so that less memory is used.
	return list, meta.EachListItem(list, func(obj runtime.Object) error {
		if object, ok := obj.(T); ok {
			return r.transformInPlace(object)
		}
		return nil
	})
}

// openWatch opens a watch, or a streaming list that continues as a watch.
//
// If the server does not answer, openWatch returns an empty watch instead of an
// error, because the reflector would list again after an error, which does not
// help. For a streaming list it returns an error, because a plain list may
// succeed.
func (r *reflectorStore[T]) openWatch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	r.brokeOff()
	r.watched.opening()
	phase := phaseWatch
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		if r.progress.cannotStream() {
			return nil, errNoBookmark
		}
		phase = phaseStream
		r.forgetTime(&opts)
	} else if r.isRestored() {
		return nil, requests.ErrRestored // the reflector then lists
	}
	r.selects(&opts)
	var covered keyspace.Set
	if r.part != nil {
		covered = r.part.SelectWatch(&opts, phase == phaseStream)
	}
	r.progress.begin(phase)
	r.streamed = map[any]wire.Fingerprint{}
	w, err := requests.OpenInTime(ctx, func(ctx context.Context) (watch.Interface, error) {
		return r.specs.open(ctx, opts)
	})
	r.progress.answered(ctx, err)
	switch {
	case err == nil:
		if phase == phaseWatch {
			if w, err = r.checked(ctx, w, opts.ResourceVersion); err != nil {
				return nil, err
			}
		}
		if r.part != nil {
			w = requests.NewEndable(w, nil)
		}
		r.progress.opened(w, opts.TimeoutSeconds)
		r.watched.opened(w, covered, phase == phaseStream)
		w = timedWatch{w, r.progress}
		if phase == phaseStream {
			r.consistent.Store(opts.ResourceVersion == "")
		}
	case errors.Is(err, requests.ErrCutOff), errors.Is(err, requests.ErrNoAnswer) && phase == phaseWatch:
		w = watch.NewEmptyWatch()
	default:
		return nil, err
	}
	r.storePending()
	return w, nil
}

// list sends a request for a list or for one page of a list.
func (r *reflectorStore[T]) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if r.part != nil {
		return r.part.List(ctx, opts)
	}
	return r.source.list(ctx, opts)
}

// selects adds the selectors of the options to opts.
func (r *reflectorStore[T]) selects(opts *metav1.ListOptions) {
	opts.LabelSelector = r.sink.options.LabelSelector
	opts.FieldSelector = r.sink.options.FieldSelector
}

// IsWatchListSemanticsUnSupported reports whether the reflector must not stream
// lists.
func (r *reflectorStore[T]) IsWatchListSemanticsUnSupported() bool {
	return r.source.fake || r.source.unstreamed
}

// Add stores an object that the watch reports as added.
func (r *reflectorStore[T]) Add(obj any) error { return r.Update(obj) }

// Update stores the new state of an object.
func (r *reflectorStore[T]) Update(obj any) error {
	r.progress.markActive()
	it, err := r.prepare(obj)
	if err != nil {
		return err
	}
	r.noteNamespace(it)
	r.into.Put(it)
	return nil
}

// noteNamespace records that the source reads the namespace of an object.
func (r *reflectorStore[T]) noteNamespace(it *tree.Item[T]) {
	if r.source.reach.Certainty != clients.Certain {
		r.sink.brought.LoadOrStore(it.Key.Namespace, true)
	}
}

// Delete removes an object.
func (r *reflectorStore[T]) Delete(obj any) error {
	r.progress.markActive()
	object, _, err := r.typed(obj)
	if err != nil {
		return err
	}
	r.into.Remove(object)
	return nil
}

// Replace makes a list the whole content of the source's part of the store.
func (r *reflectorStore[T]) Replace(list []any, rv string) error {
	r.progress.listed()
	items := make([]*tree.Item[T], 0, len(list))
	for _, obj := range list { // the objects were prepared when they were received
		object, ok := obj.(T)
		if !ok {
			return wrongType[T](obj)
		}
		it := itemOf(object)
		r.noteNamespace(it)
		it.Spec = r.streamed[object]
		items = append(items, it)
	}
	r.streamed = nil
	how := r.listed(items, rv)
	r.pending = func() {
		done := func() {
			r.sink.marks.Advance(r.source.namespace, rv, true)
			r.progress.synced.Store(true)
			r.sink.updateSynced()
			r.watched.streamed()
		}
		r.into.Replace(rv, items, how, done)
	}
	if !r.source.fake {
		r.storePending()
	}
	return nil
}

// storePending stores and delivers the last list. The watch of a fake is opened
// before its list is stored, because the watch does not start at a
// resourceVersion. Otherwise writes between the first list and the watch would
// be lost.
func (r *reflectorStore[T]) storePending() {
	if pending := r.pending; pending != nil {
		r.pending = nil
		pending()
	}
}

// Resync forwards the resync to the observer of a shared informer.
func (r *reflectorStore[T]) Resync() error {
	if r.dropin != nil {
		r.dropin.Observer.Lock()
		defer r.dropin.Observer.Unlock()
		r.dropin.Observer.Resync()
	}
	return nil
}

// Bookmark records that the watch is alive. The reflector then calls
// UpdateResourceVersion.
func (r *reflectorStore[T]) Bookmark(string) error {
	r.progress.bookmarked()
	return nil
}

// UpdateResourceVersion records the resourceVersion that the watch has reached.
// It is called after the handlers.
func (r *reflectorStore[T]) UpdateResourceVersion(rv string) {
	if seen, older := r.isBefore(rv); older { // a watch is in the order of the writes
		r.noteRestored(seen, rv)
	}
	r.into.CaughtUp(rv)
	r.sink.store.delivery.after(func() { r.sink.marks.Advance(r.source.namespace, rv, false) })
}

// Transformer returns the function that the reflector calls for each received
// object of a streaming list.
func (r *reflectorStore[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		r.progress.received.Add(1)
		r.progress.markActive()
		it, err := r.prepare(obj)
		if err != nil {
			return nil, err
		}
		if it.Spec != (wire.Fingerprint{}) {
			r.streamed[it.Object] = it.Spec
		}
		return it.Object, nil
	}
}

// prepare returns an item for the store, whose object is transformed and shares
// equal parts with other objects.
func (r *reflectorStore[T]) prepare(obj any) (*tree.Item[T], error) {
	object, spec, err := r.typed(obj)
	if err != nil {
		return nil, err
	}
	it := itemOf(object)
	if itemwise.Why(object) != nil {
		return it, nil
	}
	r.sink.store.share(object)
	if spec != (wire.Fingerprint{}) && !intern.Lazy(object) { // the next state must not have the same memory
		it.Spec = spec
	}
	return it, nil
}

// typed returns the transformed object, which no client shares, and the
// fingerprint of its spec if that is known.
func (r *reflectorStore[T]) typed(obj any) (object T, spec wire.Fingerprint, err error) {
	object, ok := obj.(T)
	if !ok {
		return object, spec, wrongType[T](obj)
	}
	if object, spec, err = r.specs.take(object); err != nil {
		return object, spec, err
	}
	if r.source.mayShare() {
		object = object.DeepCopyObject().(T)
	}
	object, err = r.transform(object)
	return object, spec, err
}

func wrongType[T Object](obj any) error {
	return fmt.Errorf("the server sent a %T, not a %s", obj, reflect.TypeFor[T]())
}

// transform applies the options to an object before its parts are shared, so
// that dropped parts use no memory. If Transform panics, it returns a stub.
func (r *reflectorStore[T]) transform(object T) (transformed T, err error) {
	if itemwise.Why(object) != nil {
		return object, nil
	}
	if r.sink.options.DropManagedFields {
		object.SetManagedFields(nil)
	}
	if r.sink.options.Transform == nil && r.settings.Transform == nil {
		return object, nil
	}
	identity := itemwise.Identity(object)
	defer func() {
		if p := recover(); p != nil {
			why := itemwise.Panicked(itemwise.CauseTransform, "informer.Options.Transform", p)
			stub, ok := itemwise.Stub[T](identity, why)
			if transformed = stub; !ok {
				err = why.Err
			}
		}
	}()
	if r.settings.Transform != nil {
		made, err := r.settings.Transform(object)
		if transformed, ok := made.(T); ok || err != nil {
			return transformed, err
		}
		return transformed, wrongType[T](made)
	}
	r.sink.options.Transform(object)
	return object, nil
}

// transformInPlace transforms an object of a list, and lets it share equal
// parts with other objects.
func (r *reflectorStore[T]) transformInPlace(object T) error {
	transformed, err := r.transform(object)
	if err != nil {
		return err
	}
	if any(transformed) != any(object) {
		reflect.ValueOf(object).Elem().Set(reflect.ValueOf(transformed).Elem())
		return nil
	}
	if itemwise.Why(object) == nil {
		r.sink.store.share(object)
	}
	return nil
}
