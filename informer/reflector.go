package informer

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/internal/dropin"
	"github.com/homeostat/homeostat/informer/internal/follow"
	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/wire"
)

// calm is how long a watch must last before the back-off starts again with its
// shortest pause.
const calm = 2 * time.Minute

// mostDoublings limits how often requests.ListTime is doubled.
const mostDoublings = 6

// sink is the part of an informer that its watches write to.
type sink[T Object] struct {
	options  *Options
	selector labels.Selector // the label selector of the options
	identity *identity
	counted  *counters
	store    *store[T]
	marks    versions.Marks
	// seenNamespaces contains the namespaces of the objects that sources have
	// returned, for sources that do not show which namespaces they read.
	seenNamespaces *sync.Map
	// complete reports whether all watches have stored and delivered their
	// first list.
	complete func() bool
}

// updateSynced computes again whether the informer has synced. It is called
// after each list of a watch, and after each change of the watches, the shards
// and the users.
func (s *sink[T]) updateSynced() { s.marks.SetSynced(s.complete) }

// reflectorStore is the store of client-go's Reflector. It puts the objects of
// one source into the informer's store.
type reflectorStore[T Object] struct {
	sink     *sink[T]
	source   source
	progress *progress
	specs    specReader[T]
	target   contents[T]
	part     partial.Cache[T]  // nil if the cache is whole
	dropin   *dropin.Client[T] // the client of a shared informer, otherwise nil
	settings dropin.Settings   // the settings of dropin when the reflector started
	proof    versions.Proof
	watched  watched
	clockMu  sync.Mutex // guards clock
	clock    serverClock
	// consistent reports whether the last list is known to be as new as the
	// server was at the time of its request.
	consistent atomic.Bool
	// disordered is true once a list was older than an object in it.
	disordered atomic.Bool
	// lists counts the lists in flight. The reflector may leave one behind when
	// it ends.
	lists requests.Calls
	// cutLists counts the lists in a row whose answers have not ended in time. A
	// list that has succeeded only with more time is followed by one with as much.
	cutLists atomic.Int32
	pages    requests.Pages  // the pages of the last list
	ctx      context.Context //nolint:containedctx // the parent of additional requests
	cancel   context.CancelFunc
	// ended is closed when the goroutines of the watch have ended.
	ended chan struct{}

	// Only the reflector's goroutine uses the fields below.

	// pending is a function that stores the last list. It is nil after that.
	pending func()
	// streamed contains the fingerprints of the specs of a streaming list's
	// objects.
	streamed map[any]wire.Fingerprint
	// kind is the kind of the last list's objects if they are untyped. It is
	// empty if it is not known.
	kind string
	// namespaced reports whether an object of the last list has a namespace.
	// All objects of the kind then have one.
	namespaced bool
	// unlisted is an error if a streaming list had an object that client-go
	// leaves out, or that the label selector does not select. Replace then
	// refuses the list. Otherwise it would delete the cached state of that
	// object, although the object may exist.
	unlisted error
}

func newReflectorStore[T Object](target *sink[T], src source, log logr.Logger) *reflectorStore[T] {
	r := &reflectorStore[T]{
		sink: target, source: src, target: whole[T]{target.store, src.namespace}, ended: make(chan struct{}),
		progress: &progress{
			source: src, counted: target.counted, log: log, wake: make(chan struct{}, 1), began: time.Now(),
		},
		specs: specReader[T]{source: src, options: target.options, store: target.store},
	}
	if client, ok := src.dropin.(*dropin.Client[T]); ok {
		r.dropin, r.target = client, observed[T]{target.store, client.Observer}
	}
	return r
}

// example returns an empty object of the type that the reflector of a shared
// informer expects. For other informers it returns nil, because a reflector
// that knows the type skips events with objects of any other type. Such an
// event must not be skipped: distrust then lists all objects again.
func (r *reflectorStore[T]) example() any {
	if r.dropin != nil {
		return r.dropin.Example
	}
	return nil
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
	r.settings.Description = reflect.TypeFor[T]().String()
	if r.dropin != nil {
		r.settings = r.dropin.Settings()
		r.specs.transforms = r.settings.Transform != nil
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
		if err == requests.ErrGoexit { //nolint:errorlint // the reflector wraps no such error
			r.watched.stop() // the reflector has left its watch open
		}
		// A proxy may have sent a resourceVersion that the server does not
		// understand.
		if apierrors.IsBadRequest(err) {
			r.mustListBecause(err)
		}
		// requests.ErrRestored has been logged, and so has the end of a mute watch.
		if err != nil && !errors.Is(err, requests.ErrRestored) && !errors.Is(err, requests.ErrMute) {
			r.progress.failed(ctx, err)
		}
		if err != nil && r.settings.Failed != nil {
			r.settings.Failed(ctx, reflector, err)
		}
		return false, nil
	})
}

// listPage lists the objects, or one page of them, for the reflector. It adds
// the selectors and a deadline to the request, records the answer, and
// transforms the objects.
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
	page := 1
	if opts.Continue != "" {
		page += r.pages.Count()
	}
	r.progress.beginPage(page)
	limited, d := requests.WithDeadline(ctx, requests.WatchIdle, requests.ListTime<<min(r.cutLists.Load(), mostDoublings))
	defer d.End()
	r.progress.asking(d)
	sent := time.Now()
	list, err := r.list(limited, opts)
	switch {
	case err == nil || !errors.Is(context.Cause(limited), requests.ErrNoAnswer):
	case d.Answered():
		r.cutLists.Add(1)
		err = requests.ErrIncomplete
	default:
		err = requests.ErrNoAnswer
	}
	if err == nil {
		r.pages.Filtered = r.part != nil
		err = r.pages.Next(opts.Continue, list)
	}
	r.progress.answered(ctx, err)
	if err != nil {
		return list, err
	}
	if accessor, err := meta.ListAccessor(list); err == nil && accessor.GetContinue() == "" &&
		time.Since(sent) < requests.ListTime {
		r.cutLists.Store(0)
	}
	r.consistent.Store(false)
	if r.source.mayShare() {
		list = list.DeepCopyObject()
	}
	if r.dropin != nil {
		return r.unpacked(list)
	}
	// Transform each page before the next is received, so that less memory is
	// used.
	return list, meta.EachListItem(list, func(obj runtime.Object) error {
		object, ok := obj.(T)
		if !ok {
			return nil
		}
		if err := r.selected(object); err != nil {
			return err
		}
		return r.transformInPlace(object)
	})
}

// openWatch opens a watch, or a streaming list that continues as a watch.
//
// If the connection ends before the answer, or a plain watch gets no answer in
// time, openWatch returns an empty watch instead of an error. After an error
// the reflector would list all objects again, and the server would not answer
// that request either. If a streaming list gets no answer in time, openWatch
// returns an error, because a plain list may succeed.
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
	} else if err := r.mustList(); err != nil {
		return nil, err // the reflector then lists
	}
	r.selects(&opts)
	var covered keyspace.Set
	if r.part != nil {
		covered = r.part.SelectWatch(&opts, phase == phaseStream)
	}
	r.progress.begin(phase)
	r.streamed, r.unlisted = map[any]wire.Fingerprint{}, nil
	w, err := requests.OpenInTime(ctx, func(ctx context.Context) (watch.Interface, error) {
		return r.specs.open(ctx, opts)
	}, r.progress.askedToWait)
	r.progress.answered(ctx, err)
	switch {
	case err == nil:
		if phase == phaseWatch {
			if w, err = r.checked(ctx, w, opts.ResourceVersion); err != nil {
				return nil, err
			}
		}
		if r.part != nil || !r.source.isSimulated() {
			w = requests.NewEndable(w, r.misleads(r.kind, phase == phaseStream))
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

// list calls the List method of the source's client. If the answer has no
// resourceVersion, the error says that no informer can cache the kind.
func (r *reflectorStore[T]) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	request := r.source.list
	if r.part != nil {
		request = r.part.List
	}
	list, err := request(ctx, opts)
	if errors.Is(err, absent.ErrUnversioned) {
		err = cmp.Or(r.unversioned(), err)
	}
	return list, err
}

// selects sets the selectors in opts to the selectors in the informer's
// options.
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

// Update stores the new state of an object that the watch has delivered.
func (r *reflectorStore[T]) Update(obj any) error {
	r.progress.markActive()
	if err := r.admits(obj); err != nil {
		r.distrust(err)
		return nil
	}
	if err := cmp.Or(r.selected(obj.(T)), r.follows(obj.(T))); err != nil {
		r.distrust(err)
		return nil
	}
	item, err := r.prepare(obj)
	if err != nil {
		return err
	}
	r.noteNamespace(item)
	r.target.Put(item)
	return nil
}

// noteNamespace records that the source reads the namespace of an object.
func (r *reflectorStore[T]) noteNamespace(item *tree.Item[T]) {
	if r.source.reach.Certainty != clients.Certain {
		r.sink.seenNamespaces.LoadOrStore(item.Key.Namespace, true)
	}
}

// Delete removes an object that the watch reports as deleted.
func (r *reflectorStore[T]) Delete(obj any) error {
	r.progress.markActive()
	if err := r.admits(obj); err != nil {
		r.distrust(err)
		return nil
	}
	object, _, err := r.typed(obj)
	if err != nil {
		return err
	}
	if err := r.deletes(object); err != nil {
		r.distrust(err)
		return nil
	}
	r.target.Remove(object)
	return nil
}

// Replace replaces all objects of the source in the store with the objects in
// list. It returns an error if an API server cannot have sent the list. The
// list of a fake is stored later, by openWatch; see storePending.
func (r *reflectorStore[T]) Replace(list []any, rv string) error {
	items := make([]*tree.Item[T], 0, len(list))
	r.kind, r.namespaced = "", slices.ContainsFunc(list, isInNamespace)
	if err := cmp.Or(r.unlisted, r.versionFault(rv)); err != nil {
		r.watched.stop() // the reflector would leave the watch of a streaming list open
		return err
	}
	for _, obj := range list { // the objects were prepared when they were received
		if err := r.admits(obj); err != nil {
			r.watched.stop()
			return err
		}
		object := obj.(T)
		item := itemOf(object)
		r.kind = cmp.Or(r.kind, kindOf(object))
		r.noteNamespace(item)
		item.Spec = r.streamed[object]
		items = append(items, item)
	}
	items, err := r.distinct(items)
	if err != nil {
		r.watched.stop()
		return err
	}
	r.progress.listed()
	r.specs.listed()
	r.streamed = nil
	r.noteOrder(rv, newestListed(items))
	occasion := r.listed(items, rv)
	r.pending = func() {
		done := func() {
			r.delivered(rv)
			r.progress.synced.Store(true)
			r.sink.updateSynced()
			r.watched.streamed()
		}
		r.target.Replace(rv, items, occasion, done)
	}
	if !r.source.fake {
		r.storePending()
	}
	return nil
}

// storePending stores and delivers the last list. The watch of a fake is opened
// before its list is stored, because the watch does not start at a
// resourceVersion. Otherwise a test could write as soon as the informer has
// synced, before the watch is open, and the cache would miss the write.
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

// UpdateResourceVersion records the resourceVersion that the watch has reached,
// once the handlers have received all earlier changes. It records nothing while
// the watch is distrusted.
func (r *reflectorStore[T]) UpdateResourceVersion(rv string) {
	if r.isDistrusted() { // the changes up to rv may be missing
		return
	}
	epoch := r.epoch()
	if seen, older := r.isBefore(rv); older { // a watch delivers events in the order of the writes
		r.noteRestored(epoch, seen, rv)
	}
	r.target.CaughtUp(rv)
	r.sink.store.delivery.notifyDelivered(func() { r.sink.marks.Advance(r.source.namespace, rv, false) })
}
