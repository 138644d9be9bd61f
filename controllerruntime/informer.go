package controllerruntime

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/homeostat/homeostat/informer"
)

// A kind on demand is an informer of the objects that were read. It does not
// pass events on as they come: what a handler gets is the difference between
// what it was told and what the cache knows. So an object that the cache drops,
// or of which it knows nothing for a while, is never told to be deleted.

var _ crcache.Informer = (*kind)(nil)

// defaultSyncPeriod is how often a handler gets all objects again, as in
// controller-runtime.
const defaultSyncPeriod = 10 * time.Hour

// handled is what the handlers of a kind were told. kind.mu guards it.
type handled struct {
	known     map[types.NamespacedName]informer.Object
	listeners map[*listener]bool
	listening bool          // the kind runs
	runs      chan struct{} // closed when the kind runs
	calling   *sync.WaitGroup
}

func newHandled() handled {
	return handled{
		known: map[types.NamespacedName]informer.Object{}, listeners: map[*listener]bool{},
		runs: make(chan struct{}), calling: &sync.WaitGroup{},
	}
}

// isWatched reports whether somebody but the manager's own client has a
// handler. mu is held.
func (k *kind) isWatched() bool {
	for l := range k.listeners {
		if !l.consistency {
			return true
		}
	}
	return false
}

// deliver tells the handlers what has changed of the object of key. It changes
// nothing if the state of the object is not known.
func (k *kind) deliver(key types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reads[key] == nil {
		return
	}
	if known, err := k.refs.Parts().State(key); err != nil || !known {
		return
	}
	before, was := k.known[key]
	after, is := k.refs.Get(key)
	switch {
	case is:
		k.known[key] = after
	case was:
		delete(k.known, key)
	}
	switch {
	case !was && !is || was && is && before == after:
	case !was:
		k.tell(notice{new: after})
	case !is:
		k.tell(notice{old: before})
	case before.GetUID() != after.GetUID():
		k.tell(notice{old: before})
		k.tell(notice{new: after})
	default:
		k.tell(notice{old: before, new: after})
	}
}

// tell queues a notice for each handler. mu is held.
func (k *kind) tell(n notice) {
	for l := range k.listeners {
		l.add(n)
	}
}

// listen begins to call handlers.
func (k *kind) listen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listening = true
	close(k.runs)
	for l := range k.listeners {
		k.begin(l)
	}
}

// begin begins to call a handler. mu is held.
func (k *kind) begin(l *listener) {
	k.calling.Go(l.run)
	if l.resync > 0 {
		k.calling.Go(func() { k.resync(l) })
	}
}

// resync queues all objects for a handler again and again.
func (k *kind) resync(l *listener) {
	every := time.NewTicker(l.resync)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-l.ended:
			return
		}
		k.mu.Lock()
		for _, object := range k.known {
			l.add(notice{old: object, new: object})
		}
		k.mu.Unlock()
	}
}

// endListeners returns when no handler is called any more.
func (k *kind) endListeners() {
	k.mu.Lock()
	for l := range k.listeners {
		l.end()
	}
	k.listening = false
	k.mu.Unlock()
	k.calling.Wait()
}

// AddEventHandler implements [cache.SharedInformer].
func (k *kind) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer].
func (k *kind) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements [cache.SharedInformer].
func (k *kind) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, o cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	l := newListener(h)
	l.resync = defaultSyncPeriod
	if period := k.scope.config.SyncPeriod; period != nil {
		l.resync = *period
	}
	if o.ResyncPeriod != nil {
		l.resync = *o.ResyncPeriod
	}
	if l.consistency {
		// The client waits until a handler has had its writes. Get waits for them
		// itself, and this handler never hears of an object that nobody reads.
		l.resync = 0
		l.add(notice{new: &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(math.MaxInt)},
		}})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		return nil, fmt.Errorf("handler %v was not added to shared informer because it has stopped already", h)
	}
	if !l.consistency {
		for _, object := range k.known {
			l.add(notice{new: object, initial: true})
		}
	}
	l.add(notice{synced: true})
	k.listeners[l] = true
	if k.listening {
		k.begin(l)
	}
	return l, nil
}

// RemoveEventHandler implements [cache.SharedInformer].
func (k *kind) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	l, ok := handle.(*listener)
	if !ok {
		return fmt.Errorf("invalid key type %T", handle)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.listeners, l)
	l.end()
	return nil
}

// errNoIndexers refuses indexers of client-go: nothing lists what is cached.
var errNoIndexers = errors.New("objects of this kind are cached on demand, and cannot be indexed: use IndexField")

// AddIndexers implements [cache.SharedIndexInformer].
func (k *kind) AddIndexers(indexers cache.Indexers) error {
	if len(indexers) == 0 {
		return nil
	}
	return errNoIndexers
}

// HasSynced reports whether the kind runs. There is no first list.
func (k *kind) HasSynced() bool {
	select {
	case <-k.runs:
		return true
	default:
		return false
	}
}

// HasSyncedChecker is HasSynced.
func (k *kind) HasSyncedChecker() cache.DoneChecker { return done{k.gvk.Kind + " on demand", k.runs} }

// IsStopped implements [cache.SharedInformer].
func (k *kind) IsStopped() bool { return k.ctx.Err() != nil }

// toldDeleted tells the manager's own client that an object is deleted, if that
// waits for it.
func (k *kind) toldDeleted(key types.NamespacedName, uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.listeners {
		if l.consistency {
			l.add(notice{old: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: key.Namespace, Name: key.Name, UID: uid, ResourceVersion: "0",
			}}})
		}
	}
}
