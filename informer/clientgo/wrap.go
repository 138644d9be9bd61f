package clientgo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/internal/follow"
	"github.com/homeostat/homeostat/internal/rvorder"
)

var errNoShared = errors.New("clientgo.Wrap: the shared informer is nil")

// Wrap returns an informer that follows a shared informer of client-go, for
// programs that already have such informers:
//
//	pods := clientgo.Wrap[*corev1.Pod](factory.Core().V1().Pods().Informer(), nil)
//
// Its Run does not start the shared informer. The factory of the shared
// informer does that. The objects are the ones that the shared informer stores,
// not copies. Those options that select objects, or that say how to watch and
// store them, have no effect.
//
// A wrapped informer cannot send requests. So WaitForLatest and WaitForObject
// return an error. A controller with a Leader or Shards refuses the informer,
// because a new leader could not know whether its cache shows the last writes
// of the previous one. A nil shared is reported like an invalid option, see
// [informer.For].
//
// client-go does not say whether the watch of a shared informer works. So
// Status.Problems of a wrapped informer does not name a watch that fails, for
// example because the credentials have expired. Only Status.LastActivity shows
// it: the time of the last event or bookmark, with which the alert
// HomeostatWatchSilent (docs/operating.md) fires after ten minutes. The log of
// client-go has the cause. If the shared informer was made by [Informers.New],
// [Informers.Status] names a watch that has failed for a minute.
func Wrap[T informer.Object](shared cache.SharedIndexInformer, o *informer.Options) *informer.Informer[T] {
	options := ptr.Deref(o, informer.Options{})
	options.NoSharing = true
	client := &follow.Client[T]{Follow: func(ctx context.Context, store follow.Store[T]) error {
		return followShared(ctx, shared, store)
	}}
	if v := reflect.ValueOf(shared); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		client.Err = errNoShared
	}
	return informer.For(client, &options)
}

// following stores the events of a shared informer.
type following[T informer.Object] struct {
	shared cache.SharedIndexInformer
	store  follow.Store[T]
	began  string // the resourceVersion of shared when following it began

	// mu guards the fields below. It is held during calls of the store. So no
	// event overtakes the list of the first objects.
	mu    sync.Mutex
	first map[cache.ObjectName]T // the first objects; nil after they have been stored
	ended bool
}

// followShared copies the objects of shared to a store until ctx ends. It fails
// if shared has stopped.
func followShared[T informer.Object](
	ctx context.Context, shared cache.SharedIndexInformer, store follow.Store[T],
) error {
	f := &following[T]{
		shared: shared, store: store, first: map[cache.ObjectName]T{}, began: shared.LastSyncResourceVersion(),
	}
	registration, err := shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    f.put,
		UpdateFunc: func(_, obj any) { f.put(obj) },
		DeleteFunc: f.delete,
	})
	if err != nil {
		return fmt.Errorf("following the wrapped informer: %w", err)
	}
	select {
	case <-registration.HasSyncedChecker().Done():
		f.waitForVersion(ctx)
		f.storeFirst()
		f.listen(ctx)
	case <-ctx.Done():
	}
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	// It fails only if shared has stopped, and then no event follows.
	_ = shared.RemoveEventHandler(registration)
	return nil
}

// waitForVersion returns when the resourceVersion of the first list is known.
// A shared informer reports that it has synced shortly before it records this
// resourceVersion. If the list is empty, no object shows it either. A fake may
// have no resourceVersion at all, so waitForVersion gives up after a second.
func (f *following[T]) waitForVersion(ctx context.Context) {
	for range 1000 {
		f.mu.Lock()
		known := len(f.first) > 0
		f.mu.Unlock()
		if known || cmp.Or(f.began, f.shared.LastSyncResourceVersion()) != "" {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// storeFirst stores the first objects as one list.
func (f *following[T]) storeFirst() {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, newest := make([]T, 0, len(f.first)), ""
	for _, object := range f.first {
		list = append(list, object)
		rv := object.GetResourceVersion()
		if newest == "" || rvorder.Older(newest, rv) {
			newest = rv
		}
	}
	f.first = nil
	if len(list) == 0 {
		newest = cmp.Or(f.began, f.shared.LastSyncResourceVersion())
	}
	f.store.Replace(list, newest)
}

// listenPeriod is how often listen looks at the resourceVersion. A server sends
// a bookmark about every minute.
const listenPeriod = 20 * time.Second

// listen tells the store that the watch of the shared informer is alive, each
// time that the informer's resourceVersion has changed, until ctx ends. A
// bookmark changes the resourceVersion, but no handler is called for it.
func (f *following[T]) listen(ctx context.Context) {
	last := f.shared.LastSyncResourceVersion()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenPeriod):
		}
		if rv := f.shared.LastSyncResourceVersion(); rv != last {
			last = rv
			f.store.Heard()
		}
	}
}

// put handles an added or updated object.
func (f *following[T]) put(obj any) {
	object, ok := obj.(T)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended:
	case f.first != nil:
		f.first[cache.MetaObjectToName(object)] = object
	default:
		f.store.Put(object)
	}
}

// delete handles a deletion. The last state of the object may be unknown.
func (f *following[T]) delete(obj any) {
	rv := ""
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	} else if object, ok := obj.(metav1.Object); ok {
		rv = object.GetResourceVersion()
	}
	object, ok := obj.(T)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended:
	case f.first != nil:
		delete(f.first, cache.MetaObjectToName(object))
	default:
		f.store.Delete(object, rv)
	}
}
