package clientgo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/internal/dropin"
)

// object is the type of the objects in shared informers.
type object = informer.Object

// errStarted is returned if a setting is changed after the informer has
// started. The text is the same as in client-go.
var errStarted = errors.New("informer has already started")

// minimumResync is the shortest resync period, as in client-go.
const minimumResync = time.Second

// NewSharedIndexInformer returns a shared informer like client-go's function of
// the same name, but with this module's cache. Use it where a library lets the
// program choose the function that makes its informers. For example, with
// controller-runtime:
//
//	ctrl.Options{Cache: cache.Options{NewInformer: clientgo.NewSharedIndexInformer}}
//
// With a factory of client-go, call InformerFor before other code requests the
// kind:
//
//	factory.InformerFor(&corev1.Pod{}, newPods)
//
// The example of this function has a newPods, which lists and watches with the
// typed client. A ListerWatcher that [cache.NewListWatchFromClient] has made
// from the RESTClient of a typed client asks the server for JSON, unless the
// rest.Config sets ContentType. JSON takes several times the processor time of
// protobuf.
//
// Handlers, stores and indexers keep the promises of client-go. The cache and
// the watches keep more promises; see the package's contract. Use [Informers]
// to see the informer's state.
//
// An object that Go cannot decode fails the list of its kind. The ListerWatcher
// decodes a list or a page as a whole, and its error names the field, but
// neither the object nor the start of the next page. So this informer cannot
// skip the object. Informers of package cluster's clients read raw answers,
// skip such an object and name it. A cache of unstructured or metadata-only
// objects can decode it.
func NewSharedIndexInformer(
	lw cache.ListerWatcher, exampleObject runtime.Object, defaultEventHandlerResyncPeriod time.Duration,
	indexers cache.Indexers,
) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithOptions(lw, exampleObject, cache.SharedIndexInformerOptions{
		ResyncPeriod: defaultEventHandlerResyncPeriod, Indexers: indexers,
	})
}

// NewSharedIndexInformerWithOptions returns a shared informer as
// [NewSharedIndexInformer] does, with client-go's options. It ignores their
// Identifier and InformerMetricsProvider, because they measure a queue that
// this informer does not have. For metrics of the informer, use [Informers].
func NewSharedIndexInformerWithOptions(
	lw cache.ListerWatcher, exampleObject runtime.Object, options cache.SharedIndexInformerOptions,
) cache.SharedIndexInformer {
	return newShared(lw, exampleObject, options)
}

func newShared(lw cache.ListerWatcher, exampleObject runtime.Object, options cache.SharedIndexInformerOptions) *shared {
	s := &shared{
		example: exampleObject, description: options.ObjectDescription,
		checkPeriod: options.ResyncPeriod, defaultPeriod: options.ResyncPeriod,
		turn: make(chan struct{}, 1), synced: make(chan struct{}), listeners: map[*listener]bool{},
	}
	client := &dropin.Client[object]{ListerWatcher: lw, Example: exampleObject, Settings: s.settings, Observer: s}
	s.engine = informer.For(client, &informer.Options{Kind: kindOf(exampleObject)})
	s.indexer = newIndexer(s.engine, client.Store, &s.version)
	_ = s.indexer.AddIndexers(options.Indexers) // cannot conflict: the indexer is new
	return s
}

// kindOf returns the kind of an example object, or the name of its type.
func kindOf(example runtime.Object) string {
	v := reflect.Indirect(reflect.ValueOf(example))
	if !v.IsValid() {
		return ""
	}
	if kind := example.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return v.Type().Name()
}

// shared is a shared informer. It observes what its engine stores, and passes
// the changes on to listeners, each of which calls one handler.
type shared struct {
	example       runtime.Object
	description   string
	defaultPeriod time.Duration // the resync period of handlers that do not request one
	engine        *informer.Informer[object]
	indexer       *indexer
	turn          chan struct{} // holds one element while the informer is locked, see Lock
	synced        chan struct{} // closed when the first list has been stored and passed on
	version       atomic.Pointer[string]
	events        atomic.Int64 // counts the calls of handlers

	mu               sync.Mutex // guards the fields below
	started, stopped bool
	transform        cache.TransformFunc
	failed           cache.WatchErrorHandlerWithContext
	checkPeriod      time.Duration // the interval of checks for a resync

	// distributing guards the fields below. While it is held, only the mutexes
	// of the listeners are locked.
	distributing sync.Mutex
	// listeners contains the active listeners. The value reports whether the
	// listener gets notifications of unchanged objects, as of the last check
	// for a resync. Before its first check, it is true.
	listeners map[*listener]bool
	listening bool // whether the listeners are running
	running   sync.WaitGroup
}

var _ cache.SharedIndexInformer = (*shared)(nil)

// Run implements [cache.SharedInformer].
func (s *shared) Run(stop <-chan struct{}) { s.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext implements [cache.SharedInformer].
func (s *shared) RunWithContext(ctx context.Context) {
	defer utilruntime.HandleCrashWithContext(ctx)
	if !s.start() {
		klog.FromContext(ctx).Info("Warning: the shared informer has already started, and cannot be run again")
		return
	}
	s.listen()
	_ = s.engine.Run(ctx) // Run has logged the objects that were modified in place
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.endListeners()
}

// start marks the informer as started, and reports whether this is its first
// start.
func (s *shared) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.started
	s.started = true
	return first
}

// settings returns the settings with which the engine, an informer of this
// module, is started.
func (s *shared) settings() dropin.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings := dropin.Settings{
		Description: s.description, Transform: s.transform, Failed: s.failed,
		ResyncPeriod: s.checkPeriod, ShouldResync: s.shouldResync,
	}
	if dropsManagedFields(s.transform) {
		settings.DropManagedFields, settings.Transform = true, nil
	}
	return settings
}

// HasSynced implements [cache.SharedInformer].
func (s *shared) HasSynced() bool { return cache.IsDone(s.HasSyncedChecker()) }

// HasSyncedChecker implements [cache.SharedInformer].
func (s *shared) HasSyncedChecker() cache.DoneChecker { return syncedChecker{s} }

// syncedChecker is done when a shared informer has synced.
type syncedChecker struct{ shared *shared }

// Name implements [cache.DoneChecker].
func (c syncedChecker) Name() string { return fmt.Sprintf("SharedIndexInformer %T", c.shared.example) }

// Done implements [cache.DoneChecker].
func (c syncedChecker) Done() <-chan struct{} { return c.shared.synced }

// LastSyncResourceVersion implements [cache.SharedInformer].
func (s *shared) LastSyncResourceVersion() string { return ptr.Deref(s.version.Load(), "") }

// IsStopped implements [cache.SharedInformer].
func (s *shared) IsStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// SetWatchErrorHandler implements [cache.SharedInformer].
func (s *shared) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return s.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext implements [cache.SharedInformer].
func (s *shared) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	return s.beforeStart(func() { s.failed = handler })
}

// SetTransform implements [cache.SharedInformer].
func (s *shared) SetTransform(handler cache.TransformFunc) error {
	return s.beforeStart(func() { s.transform = handler })
}

func (s *shared) beforeStart(set func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return errStarted
	}
	set()
	return nil
}

// GetStore implements [cache.SharedInformer].
func (s *shared) GetStore() cache.Store { return s.indexer }

// GetIndexer implements [cache.SharedIndexInformer].
func (s *shared) GetIndexer() cache.Indexer { return s.indexer }

// AddIndexers implements [cache.SharedIndexInformer].
func (s *shared) AddIndexers(indexers cache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("indexer was not added because it has stopped already")
	}
	return s.indexer.AddIndexers(indexers)
}

// GetController implements [cache.SharedInformer].
func (s *shared) GetController() cache.Controller { return controller{s} }

// controller is the result of GetController. It cannot run the informer.
type controller struct{ shared *shared }

// Run has no effect, because only Run of the shared informer starts it.
func (controller) Run(<-chan struct{}) {}

// RunWithContext has no effect, because only RunWithContext of the shared
// informer starts it.
func (controller) RunWithContext(context.Context) {}

// HasSynced implements [cache.Controller].
func (c controller) HasSynced() bool { return c.shared.HasSynced() }

// HasSyncedChecker implements [cache.Controller].
func (c controller) HasSyncedChecker() cache.DoneChecker { return c.shared.HasSyncedChecker() }

// LastSyncResourceVersion implements [cache.Controller].
func (c controller) LastSyncResourceVersion() string { return c.shared.LastSyncResourceVersion() }

// The methods below implement [dropin.Observer].

// Lock implements [dropin.Observer]. Goroutines get the lock in the order of
// their calls. So handlers which are added and removed all the time do not
// delay the watch.
func (s *shared) Lock() { s.turn <- struct{}{} }

// Unlock implements [dropin.Observer].
func (s *shared) Unlock() { <-s.turn }

// Put implements [dropin.Observer].
func (s *shared) Put(old, object object) {
	s.seen(object.GetResourceVersion())
	s.distribute(changeOf(old, object, !s.HasSynced()))
}

// changeOf returns the notification of an object that was stored.
func changeOf(old, object object, initial bool) notification {
	if old == nil {
		return notification{object: object, initial: initial}
	}
	unchanged := old.GetResourceVersion() == object.GetResourceVersion()
	return notification{old: old, object: object, unchanged: unchanged}
}

// Deleted implements [dropin.Observer].
func (s *shared) Deleted(last object) {
	s.seen(last.GetResourceVersion())
	s.distribute(notification{deleted: last})
}

// Lost implements [dropin.Observer].
func (s *shared) Lost(cached object) { s.distribute(lost(cached)) }

func lost(cached object) notification {
	key := cache.MetaObjectToName(cached).String()
	return notification{deleted: cache.DeletedFinalStateUnknown{Key: key, Obj: cached}}
}

// Replaced implements [dropin.Observer].
func (s *shared) Replaced(removed []object, current iter.Seq2[object, object], rv string) {
	first := !s.HasSynced()
	s.seen(rv)
	var changes []notification
	for _, cached := range removed {
		changes = append(changes, lost(cached))
	}
	for old, object := range current {
		changes = append(changes, changeOf(old, object, first))
	}
	s.distributing.Lock()
	defer s.distributing.Unlock()
	for l, resyncs := range s.listeners {
		l.add(delivery{notification: notification{initial: first}, notifications: slices.Values(changes), changes: !resyncs})
	}
	if !first {
		return
	}
	close(s.synced)
	for l := range s.listeners {
		l.tracker.UpstreamHasSynced()
	}
}

// CaughtUp implements [dropin.Observer].
func (s *shared) CaughtUp(rv string) { s.seen(rv) }

// Resync implements [dropin.Observer].
func (s *shared) Resync() {
	notices := s.stored(func(object object) notification {
		return notification{old: object, object: object, unchanged: true}
	})
	s.distributing.Lock()
	defer s.distributing.Unlock()
	for l, resyncs := range s.listeners {
		if resyncs {
			l.add(delivery{notifications: notices})
		}
	}
}

// stored returns an iterator over the notifications that notify returns for the
// stored objects. It does not copy the objects.
func (s *shared) stored(notify func(object) notification) iter.Seq[notification] {
	snapshot := s.engine.Snapshot()
	return func(yield func(notification) bool) {
		for object := range snapshot.All() {
			if !yield(notify(object)) {
				return
			}
		}
	}
}

// seen records the resourceVersion that the cache has reached.
func (s *shared) seen(rv string) { s.version.Store(&rv) }

// distribute passes a notification on to the listeners. If the object is
// unchanged, only the listeners that are due for a resync get it.
func (s *shared) distribute(n notification) {
	s.distributing.Lock()
	defer s.distributing.Unlock()
	for l, resyncs := range s.listeners {
		if resyncs || !n.unchanged {
			l.add(delivery{notification: n})
		}
	}
}

// shouldResync records which listeners are due for a resync, and reports
// whether at least one is.
func (s *shared) shouldResync() (due bool) {
	s.distributing.Lock()
	defer s.distributing.Unlock()
	now := time.Now()
	for l := range s.listeners {
		isDue := l.isDue(now)
		s.listeners[l] = isDue
		due = due || isDue
	}
	return due
}

// listen starts the listeners.
func (s *shared) listen() {
	s.distributing.Lock()
	defer s.distributing.Unlock()
	s.listening = true
	for l := range s.listeners {
		s.running.Go(l.run)
	}
}

// endListeners ends the listeners, and returns after the last handler has
// returned.
func (s *shared) endListeners() {
	s.distributing.Lock()
	for l := range s.listeners {
		l.close()
	}
	clear(s.listeners)
	s.listening = false
	s.distributing.Unlock()
	s.running.Wait()
}

// AddEventHandler implements [cache.SharedInformer].
func (s *shared) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer].
func (s *shared) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements [cache.SharedInformer].
func (s *shared) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, options cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, fmt.Errorf("handler %v was not added to shared informer because it has stopped already", handler)
	}
	logger := ptr.Deref(options.Logger, klog.Background())
	period := s.resyncPeriod(logger, ptr.Deref(options.ResyncPeriod, s.defaultPeriod))
	l := newListener(logger, handler, s.HasSyncedChecker().Name(), &s.events)
	l.requested, l.period = period, effectivePeriod(logger, period, s.checkPeriod)
	l.due = time.Now().Add(l.period)
	s.Lock()
	defer s.Unlock()
	s.join(l, s.started)
	return l, nil
}

// join adds a listener. If the informer has started, the listener first gets
// the stored objects. The caller holds Lock.
func (s *shared) join(l *listener, started bool) {
	s.distributing.Lock()
	defer s.distributing.Unlock()
	s.listeners[l] = true
	if !started {
		return
	}
	l.add(delivery{notification: notification{initial: true}, notifications: s.stored(func(object object) notification {
		return notification{object: object, initial: true}
	})})
	if s.HasSynced() {
		l.tracker.UpstreamHasSynced()
	}
	if s.listening {
		s.running.Go(l.run)
	}
}

// RemoveEventHandler implements [cache.SharedInformer].
func (s *shared) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	l, ok := handle.(*listener)
	if !ok {
		return fmt.Errorf("invalid key type %T", handle)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Lock()
	defer s.Unlock()
	s.distributing.Lock()
	defer s.distributing.Unlock()
	if _, known := s.listeners[l]; !known {
		return nil
	}
	delete(s.listeners, l)
	l.close()
	if !s.listening {
		close(l.ended)
	}
	return nil
}
