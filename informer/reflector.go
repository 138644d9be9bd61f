package informer

import (
	"context"
	"errors"
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

	"github.com/homeostat/homeostat/informer/internal/dropin"
	"github.com/homeostat/homeostat/informer/internal/follow"
	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/wire"
)

// calm is how long a watch must have lasted for the back-off to start again.
const calm = 2 * time.Minute

// sink takes the events of watches.
type sink[T Object] struct {
	options  *Options
	identity *identity
	counted  *counters
	store    *store[T]
	marks    versions.Marks
	// brought has the namespaces whose objects a source has brought, if it does
	// not show which it reads.
	brought *sync.Map
	// complete reports whether all watches have stored and delivered their
	// first list.
	complete func() bool
}

// updateSynced follows the first list of a watch, and each change of the
// watches, of the shards and of the users.
func (s *sink[T]) updateSynced() { s.marks.SetSynced(s.complete) }

// reflectorStore puts the objects that one source lists and watches into the
// store. It is the store of client-go's Reflector.
type reflectorStore[T Object] struct {
	sink     *sink[T]
	source   source
	progress *progress
	specs    specReader[T]
	into     contents[T]
	part     partial.Cache[T]  // nil if the cache is whole
	dropin   *dropin.Client[T] // nil unless it is that of a shared informer
	settings dropin.Settings   // its own, from when it begins to run
	proof    versions.Proof
	watched  watched
	clockMu  sync.Mutex // guards clock
	clock    serverClock
	// consistent says that the last list was as new as the server when it was
	// asked for.
	consistent atomic.Bool
	// lists counts the lists under way: the reflector may leave one behind.
	lists  calls
	ctx    context.Context //nolint:containedctx // requests beside the watch end with it
	cancel context.CancelFunc
	// ended is closed when its goroutines have ended.
	ended chan struct{}

	// Only the reflector's goroutine uses the fields below.
	// pending stores the last list; nil once that is done.
	pending func()
	// streamed has the specs of the objects of a streaming list until it is stored.
	streamed map[any]wire.Fingerprint
}

func newReflectorStore[T Object](to *sink[T], from source, log logr.Logger) *reflectorStore[T] {
	r := &reflectorStore[T]{
		sink: to, source: from, into: whole[T]{to.store, from.namespace}, ended: make(chan struct{}),
		progress: &progress{
			source: from, counted: to.counted, log: log, wake: make(chan struct{}, 1),
		},
		specs: specReader[T]{source: from, options: to.options, store: to.store},
	}
	if client, ok := from.dropin.(*dropin.Client[T]); ok {
		r.dropin, r.into = client, observed[T]{to.store, client.Observer}
	}
	return r
}

// example returns an object of the type of all; nil if they may have any type.
func (r *reflectorStore[T]) example() any {
	if r.dropin != nil {
		return r.dropin.Example
	}
	return example[T]()
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
	defer r.lists.wait()
	o := r.sink.options
	backoff := wait.Backoff{Duration: o.BackoffBase, Cap: o.BackoffCap, Steps: 1 << 10, Factor: 2, Jitter: 1}
	pauses := mortalClock{ctx: ctx}
	lw := &cache.ListWatch{ListWithContextFunc: r.listPage, WatchFuncWithContext: r.openWatch}
	from := cache.ToListWatcherWithWatchListSemantics(lw, r)
	if r.dropin != nil {
		r.settings = r.dropin.Settings()
	}
	reflector := cache.NewReflectorWithOptions(from, r.example(), r, cache.ReflectorOptions{
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
		err := errGoexit
		var running sync.WaitGroup
		running.Go(func() { err = reflector.ListAndWatchWithContext(ctx) }) // in a goroutine that a handler may end
		running.Wait()
		if err != nil && !errors.Is(err, errRestored) { // that has been logged
			r.progress.failed(ctx, err)
		}
		if err != nil && r.settings.Failed != nil {
			r.settings.Failed(ctx, reflector, err)
		}
		return false, nil
	})
}

// listPage sends one request for a list, or for a page of one.
func (r *reflectorStore[T]) listPage(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if !r.lists.begin() {
		return nil, context.Cause(ctx)
	}
	defer r.lists.end()
	if opts.Continue == "" {
		r.watched.opening()
	}
	r.forgetTime(&opts)
	r.selects(&opts)
	if r.part != nil {
		r.part.SelectList(&opts)
	}
	r.progress.begin(phaseList)
	limited, d := withDeadline(ctx, watchIdle, 0)
	defer d.end()
	list, err := r.list(limited, opts)
	if err != nil && errors.Is(context.Cause(limited), errNoAnswer) {
		err = errNoAnswer
	}
	r.progress.answered(ctx, err)
	if err != nil {
		r.sink.updateSynced() // of independent namespaces, others need not wait for this one
		return list, err
	}
	r.consistent.Store(false)
	if r.source.mayShare() {
		list = list.DeepCopyObject()
	}
	if r.dropin != nil {
		return r.unpacked(list)
	}
	// Page by page, so that replaced parts are garbage before the next page comes.
	return list, meta.EachListItem(list, func(obj runtime.Object) error {
		if object, ok := obj.(T); ok {
			return r.transformInPlace(object)
		}
		return nil
	})
}

// openWatch opens a watch, or a streaming list that continues as a watch.
//
// If the server does not answer, it returns an empty watch instead of an error:
// after an error the reflector would list again, which does not help. A streaming
// list fails, as a plain list may succeed.
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
		return nil, errRestored // the reflector then lists
	}
	r.selects(&opts)
	var of keyspace.Set
	if r.part != nil {
		of = r.part.SelectWatch(&opts, phase == phaseStream)
	}
	r.progress.begin(phase)
	r.streamed = map[any]wire.Fingerprint{}
	w, err := openInTime(ctx, func(ctx context.Context) (watch.Interface, error) { return r.specs.open(ctx, opts) })
	r.progress.answered(ctx, err)
	switch {
	case err == nil:
		if phase == phaseWatch {
			if w, err = r.checked(ctx, w, opts.ResourceVersion); err != nil {
				return nil, err
			}
		}
		if r.part != nil {
			w = newEndable(w, nil)
		}
		r.progress.opened(w, opts.TimeoutSeconds)
		r.watched.opened(w, of, phase == phaseStream)
		w = timedWatch{w, r.progress}
		if phase == phaseStream {
			r.consistent.Store(opts.ResourceVersion == "")
		}
	case errors.Is(err, errCutOff), errors.Is(err, errNoAnswer) && phase == phaseWatch:
		w = watch.NewEmptyWatch()
	default:
		return nil, err
	}
	r.storePending()
	return w, nil
}

// list sends a request for a list, or for a page of one.
func (r *reflectorStore[T]) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if r.part != nil {
		return r.part.List(ctx, opts)
	}
	return r.source.list(ctx, opts)
}

// selects applies the selectors of the options.
func (r *reflectorStore[T]) selects(opts *metav1.ListOptions) {
	opts.LabelSelector = r.sink.options.LabelSelector
	opts.FieldSelector = r.sink.options.FieldSelector
}

// IsWatchListSemanticsUnSupported reports whether the reflector must not stream
// lists.
func (r *reflectorStore[T]) IsWatchListSemanticsUnSupported() bool {
	return r.source.fake || r.source.unstreamed
}

// Add stores an object that is new to the watch.
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

// noteNamespace notes that the source reads the namespace of an object.
func (r *reflectorStore[T]) noteNamespace(it *tree.Item[T]) {
	if r.source.reach.certainty != certain {
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
	for _, obj := range list { // prepared when they were received
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
	how := r.listedAt(rv)
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

// storePending stores and delivers the last list. Watches of a fake start at no
// resourceVersion, so they are opened before: otherwise what a controller writes
// between its first list and the watch would be lost.
func (r *reflectorStore[T]) storePending() {
	if pending := r.pending; pending != nil {
		r.pending = nil
		pending()
	}
}

// Resync tells the observer of a shared informer.
func (r *reflectorStore[T]) Resync() error {
	if r.dropin != nil {
		r.dropin.Observer.Lock()
		defer r.dropin.Observer.Unlock()
		r.dropin.Observer.Resync()
	}
	return nil
}

// Bookmark notes that the watch is alive; UpdateResourceVersion follows.
func (r *reflectorStore[T]) Bookmark(string) error {
	r.progress.bookmarked()
	return nil
}

// UpdateResourceVersion notes how far the watch has come, after the handlers have
// been called.
func (r *reflectorStore[T]) UpdateResourceVersion(rv string) {
	if seen, before := r.isBefore(rv); before { // a watch is in the order of the writes
		r.noteRestored(seen, rv)
	}
	r.into.CaughtUp(rv)
	r.sink.store.delivery.after(func() { r.sink.marks.Advance(r.source.namespace, rv, false) })
}

// follower stores the objects of a followed cache.
type follower[T Object] struct{ *reflectorStore[T] }

var _ follow.Store[Object] = follower[Object]{}

// Replace implements [follow.Store].
func (f follower[T]) Replace(objects []T, rv string) {
	list := make([]any, len(objects))
	for n, object := range objects {
		list[n] = object
	}
	_ = f.reflectorStore.Replace(list, rv) // every element is a T
}

// Put implements [follow.Store].
func (f follower[T]) Put(object T) {
	f.progress.markActive()
	it := itemOf(object)
	f.noteNamespace(it)
	f.into.Put(it)
	f.UpdateResourceVersion(object.GetResourceVersion())
}

// Delete implements [follow.Store].
func (f follower[T]) Delete(object T, rv string) {
	f.progress.markActive()
	f.into.Remove(object)
	f.UpdateResourceVersion(rv)
}
