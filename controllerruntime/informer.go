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

// A kind on demand is the informer of the objects that were read. It does not
// pass on the events of the watch. Instead it compares the cached object with
// the object that the handlers were last told about, and tells them the
// difference. So the handlers get no deletion of an object that the cache only
// drops, or whose state is unknown for a while.

var _ crcache.Informer = (*kind)(nil)

// defaultSyncPeriod is how often a handler gets all objects again, unless the
// cache or the handler sets another period. controller-runtime has the same
// default.
const defaultSyncPeriod = 10 * time.Hour

// handled contains the handlers of a kind, and the objects as the handlers know
// them. The objects are also recorded while there are no handlers, because a
// new handler is told about them. kind.mu guards it.
type handled struct {
	delivered map[types.NamespacedName]informer.Object
	listeners map[*listener]bool
	listening bool          // whether the kind runs and its handlers are called
	runs      chan struct{} // closed when the kind runs
	calling   *sync.WaitGroup
}

func newHandled() handled {
	return handled{
		delivered: map[types.NamespacedName]informer.Object{}, listeners: map[*listener]bool{},
		runs: make(chan struct{}), calling: &sync.WaitGroup{},
	}
}

// isWatched reports whether there is a handler besides the handler of the
// manager's own client. mu must be held.
func (k *kind) isWatched() bool {
	for l := range k.listeners {
		if !l.consistency {
			return true
		}
	}
	return false
}

// deliver tells the handlers how the object of key has changed since they were
// last told about it. It does nothing if nothing has changed, if the object is
// not held, or if its state is not known.
func (k *kind) deliver(key types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reads[key] == nil {
		return
	}
	if known, err := k.refs.Parts().State(key); err != nil || !known {
		return
	}
	old, existed := k.delivered[key]
	current, exists := k.refs.Get(key)
	switch {
	case exists:
		k.delivered[key] = current
	case existed:
		delete(k.delivered, key)
	}
	switch {
	case !existed && !exists || existed && exists && old == current:
	case !existed:
		k.tell(notice{new: current})
	case !exists:
		k.tell(notice{old: old})
	case old.GetUID() != current.GetUID():
		k.tell(notice{old: old})
		k.tell(notice{new: current})
	default:
		k.tell(notice{old: old, new: current})
	}
}

// tell queues a notice for each handler. mu must be held.
func (k *kind) tell(n notice) {
	for l := range k.listeners {
		l.add(n)
	}
}

// listen starts to call the handlers.
func (k *kind) listen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listening = true
	close(k.runs)
	for l := range k.listeners {
		k.begin(l)
	}
}

// begin starts to call a handler. mu must be held.
func (k *kind) begin(l *listener) {
	k.calling.Go(l.run)
	if l.resync > 0 {
		k.calling.Go(func() { k.resync(l) })
	}
}

// resync queues all objects for a handler once in each period, until the
// handler is removed.
func (k *kind) resync(l *listener) {
	ticker := time.NewTicker(l.resync)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-l.ended:
			return
		}
		k.mu.Lock()
		for _, object := range k.delivered {
			l.add(notice{old: object, new: object})
		}
		k.mu.Unlock()
	}
}

// endListeners stops calling the handlers, and waits for the calls that are
// running.
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
		// controller-runtime's client waits until this handler has received the
		// client's writes. Here Get itself waits for them, and the handler
		// would never receive the writes of an object that is never read. So it
		// gets the highest resourceVersion at once, and the client does not
		// wait.
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
		for _, object := range k.delivered {
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

// errNoIndexers is the error of AddIndexers. An indexer of client-go would have
// no effect, because List asks the server and not the cache.
var errNoIndexers = errors.New("objects of this kind are cached on demand, and cannot be indexed: use IndexField")

// AddIndexers implements [cache.SharedIndexInformer].
func (k *kind) AddIndexers(indexers cache.Indexers) error {
	if len(indexers) == 0 {
		return nil
	}
	return errNoIndexers
}

// HasSynced reports whether the kind has been started. There is no first list
// to wait for, because objects are cached only when they are read.
func (k *kind) HasSynced() bool {
	select {
	case <-k.runs:
		return true
	default:
		return false
	}
}

// HasSyncedChecker returns a checker that is done when HasSynced is true.
func (k *kind) HasSyncedChecker() cache.DoneChecker { return done{k.gvk.Kind + " on demand", k.runs} }

// IsStopped implements [cache.SharedInformer].
func (k *kind) IsStopped() bool { return k.ctx.Err() != nil }

// tellDeleted tells the handler of the manager's own client that an object was
// deleted, because the client may wait for that.
func (k *kind) tellDeleted(key types.NamespacedName, uid types.UID) {
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
