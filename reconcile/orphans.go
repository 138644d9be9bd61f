package reconcile

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
)

// orphans are the known names without an object, which Options.Known leads to.
type orphans struct {
	sweep  *names.Sweep
	forget func(left func(Key) bool) // drops the keys of another replica
	// reconcile calls present, which calls the reconciler. If a recreated object has the
	// name of an orphan, it is called without an object first.
	reconcile func(t *reconcileContext, present func(*reconcileContext) (Result, error)) (Result, error)
}

// orphanTarget is the names.Target of a controller: its primary informer is the
// cache, its queue takes the orphans.
type orphanTarget[T informer.Object] struct {
	controller *core
	in         *informer.Informer[T]

	mu       sync.Mutex // guards replaced
	replaced map[Key]struct{}
}

// sweepKnown makes the sweep of Options.Known, of the names that owns reports.
func sweepKnown[T informer.Object](
	c *core, in *informer.Informer[T], r Reconciler[T], owns func(Key) bool,
) (*orphans, error) {
	k := &orphanTarget[T]{controller: c, in: in, replaced: map[Key]struct{}{}}
	options := names.Options{}
	if c.options.Sweep != nil {
		options = *c.options.Sweep
	}
	scope, refused := options.Scope, options.Refused
	options.Scope = func(n names.Name) bool {
		return in.InScope(n.Key) && (scope == nil || scope(n)) && owns(n.Key)
	}
	options.Refused = func(e *names.RefusedError) {
		if refused != nil {
			refused(e) // it may set the advice
		}
		k.warn(e)
	}
	sweep, err := names.NewSweep(c.options.Known, k, &options)
	if err != nil {
		return nil, err
	}
	return &orphans{sweep: sweep, forget: k.forget, reconcile: func(
		t *reconcileContext, present func(*reconcileContext) (Result, error),
	) (Result, error) {
		if !k.wasReplaced(t.item.Key()) {
			return present(t)
		}
		result, err := r.Reconcile(t.around(), Request[T]{Key: t.item.Key()})
		if err == nil {
			k.cleanedUp(t.item.Key())
		}
		return result, err
	}}, nil
}

// run sweeps until ctx ends, also after a lister has ended the goroutine
// (runtime.Goexit).
func (o *orphans) run(ctx context.Context, running *sync.WaitGroup, watchdog *watchdog) {
	ended := false
	watchdog.spawn(running, func(w *worker) bool {
		if ended {
			klog.FromContext(ctx).Error(errGoexit, "sweep for orphans failed, nothing is cleaned; retrying",
				"retryIn", longestCallAgain)
			if !sleep(ctx, longestCallAgain) {
				return false
			}
		}
		ended = true
		w.begin(&openCall{Context: ctx, what: "the sweep of reconcile.Options.Known"})
		defer w.end()
		_ = o.sweep.Run(ctx) // it ends with ctx and has no other error
		return false
	})
}

// Sync waits until the cache has its first list.
func (k *orphanTarget[T]) Sync(ctx context.Context) error { return k.in.WaitForSync(ctx) }

// Find returns the UID of the cached object.
func (k *orphanTarget[T]) Find(key Key) (types.UID, bool) {
	object, ok := k.in.Get(key)
	if !ok {
		return "", false
	}
	return object.GetUID(), true
}

// Orphan enqueues the key of an orphan.
func (k *orphanTarget[T]) Orphan(o names.Orphan) {
	if o.Replaced {
		k.mu.Lock()
		k.replaced[o.Key] = struct{}{}
		k.mu.Unlock()
	}
	k.add(o.Key)
}

func (k *orphanTarget[T]) add(key Key) { k.controller.enqueueBehind(key, "known", "orphan", 0) }

// forget drops the keys that left reports: another replica has them.
func (k *orphanTarget[T]) forget(left func(Key) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.replaced, func(key Key, _ struct{}) bool { return left(key) })
}

// wasReplaced reports whether the deleted object of key is still to be handled,
// before its replacement.
func (k *orphanTarget[T]) wasReplaced(key Key) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.replaced[key]
	return ok
}

// cleanedUp records that the deleted object was handled and enqueues its
// replacement.
func (k *orphanTarget[T]) cleanedUp(key Key) {
	k.mu.Lock()
	delete(k.replaced, key)
	k.mu.Unlock()
	k.add(key)
}

// warn sends a warning about a sweep that exceeds the safety limit.
func (k *orphanTarget[T]) warn(e *names.RefusedError) {
	about := &corev1.ObjectReference{
		Kind: k.controller.primary.kind, Namespace: e.Example.Key.Namespace, Name: e.Example.Key.Name, UID: e.Example.UID,
	}
	k.controller.warn(context.Background(), about, "OrphansRefused", "Sweep", "%s", e.Error())
}
