package reconcile

import (
	"context"
	"errors"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/names"
)

// orphans reconciles the names of Options.Known that have no object. It is the
// names.Target of its sweep: the primary informer is the cache, and the
// controller's queue gets the orphans.
type orphans struct {
	controller *core
	sweep      *names.Sweep

	mu sync.Mutex // guards replaced
	// replaced are keys whose object was deleted and recreated. The next
	// reconcile of such a key gets no object, and cleans up after the deleted
	// object.
	replaced map[Key]struct{}
}

// newOrphans makes the sweep of Options.Known. The sweep only looks at names
// for which owns returns true.
func newOrphans(c *core, owns func(Key) bool) (*orphans, error) {
	k := &orphans{controller: c, replaced: map[Key]struct{}{}}
	options := ptr.Deref(c.options.Sweep, names.Options{})
	scope, refused := options.Scope, options.Refused
	options.Scope = func(n names.Name) bool {
		return c.primary.Parts().InScope(n.Key) && c.primary.Parts().WellIn(n.Key.Namespace) &&
			(scope == nil || scope(n)) && owns(n.Key)
	}
	options.Refused = func(e *names.RefusedError) {
		if refused != nil {
			refused(e) // it may set the advice
		}
		k.warn(e)
	}
	var err error
	k.sweep, err = names.NewSweep(c.options.Known, k, &options)
	return k, err
}

// run sweeps until ctx ends. It continues even if a lister has ended the
// goroutine (runtime.Goexit).
func (k *orphans) run(ctx context.Context, running *sync.WaitGroup, watchdog *watchdog) {
	ended := false
	watchdog.spawn(running, func(w *worker) bool {
		if ended {
			klog.FromContext(ctx).Error(guard.ErrGoexit, "sweep for orphans failed and cleaned nothing, retrying",
				"retryIn", longestCallPause)
			if !sleep(ctx, longestCallPause) {
				return false
			}
		}
		ended = true
		w.begin(&openCall{Context: ctx, description: "the sweep of reconcile.Options.Known"})
		defer w.end()
		_ = k.sweep.Run(ctx) // it ends with ctx and has no other error
		return false
	})
}

// Sync returns an error if the watch fails, because the cache may then lack
// objects that were created since. It does not wait for the first list, because
// Run has done so. If namespaces are independent, Sync returns nil: namespaces
// whose watch fails are out of the sweep's scope instead.
func (k *orphans) Sync(context.Context) error {
	cache := k.controller.primary.Parts()
	if cache.Independent() {
		return nil
	}
	var errs []error
	for _, err := range cache.Unwell() {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Find returns the UID of the object of key, whether it is cached or known to
// exist although it cannot be cached.
func (k *orphans) Find(key Key) (types.UID, bool) {
	if uid, ok := k.controller.primary.unreadable(key); ok {
		return uid, true
	}
	object := k.controller.primary.cached(key)
	if object == nil {
		return "", false
	}
	return object.GetUID(), true
}

// Orphan enqueues the key of an orphan. If the object was recreated, the next
// reconcile of the key gets no object.
func (k *orphans) Orphan(o names.Orphan) {
	if o.Replaced {
		k.mu.Lock()
		k.replaced[o.Key] = struct{}{}
		k.mu.Unlock()
	}
	k.add(o.Key)
}

func (k *orphans) add(key Key) { k.controller.enqueueBehind(key, "known", "orphan", 0) }

// forget drops the keys for which moved reports true, because another replica
// has them now.
func (k *orphans) forget(moved func(Key) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.replaced, func(key Key, _ struct{}) bool { return moved(key) })
}

// wasReplaced reports whether the deleted object of key must be handled before
// its replacement.
func (k *orphans) wasReplaced(key Key) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.replaced[key]
	return ok
}

// drop forgets a key that is out of scope.
func (k *orphans) drop(key Key) {
	if k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.replaced, key)
	}
}

// cleanedUp records that the deleted object was handled, and enqueues its
// replacement.
func (k *orphans) cleanedUp(key Key) {
	k.mu.Lock()
	delete(k.replaced, key)
	k.mu.Unlock()
	k.add(key)
}

// warn records a warning Event about a sweep that was refused because it
// exceeds the safety limit.
func (k *orphans) warn(e *names.RefusedError) {
	ref := &corev1.ObjectReference{
		Kind: k.controller.primary.Kind(), Namespace: e.Example.Key.Namespace, Name: e.Example.Key.Name, UID: e.Example.UID,
	}
	k.controller.warn(context.Background(), ref, "OrphansRefused", "Sweep", "%s", e.Error())
}
