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
	"github.com/homeostat/homeostat/queue"
)

// known connects the sweeps of Options.Known with the controller: its primary
// informer is the cache, its queue takes the orphans.
type known[T informer.Object] struct {
	controller *Controller
	in         *informer.Informer[T]

	mu       sync.Mutex // guards replaced
	replaced map[Key]struct{}
}

// sweepKnown gives c its sweep, and r a turn without an object for each name
// whose object was replaced by a namesake.
func sweepKnown[T informer.Object](c *Controller, in *informer.Informer[T], r Reconciler[T]) error {
	if c.options.Known == nil {
		return nil
	}
	k := &known[T]{controller: c, in: in, replaced: map[Key]struct{}{}}
	options := names.Options{}
	if c.options.Sweep != nil {
		options = *c.options.Sweep
	}
	scope, refused := options.Scope, options.Refused
	options.Scope = func(n names.Name) bool {
		return in.InScope(n.Key) && (scope == nil || scope(n)) && (c.slots == nil || c.slots.admits(n.Key))
	}
	options.Refused = func(e *names.RefusedError) {
		if refused != nil {
			refused(e) // it may set the advice
		}
		k.warn(e)
	}
	sweep, err := names.NewSweep(c.options.Known, k, &options)
	if err != nil {
		return err
	}
	c.sweep, c.forgetReplaced = sweep, k.forget
	present := c.reconcile
	c.reconcile = func(t *turnContext) (Result, error) {
		if !k.isReplaced(t.item.Key()) {
			return present(t)
		}
		result, err := r.Reconcile(t.around(), Request[T]{Key: t.item.Key()})
		if err == nil {
			k.handedOn(t.item.Key())
		}
		return result, err
	}
	return nil
}

// sweepUntil sweeps until ctx ends, also after a lister has ended the goroutine
// (runtime.Goexit).
func (c *Controller) sweepUntil(ctx context.Context, running *sync.WaitGroup) {
	ended := false
	c.watch.staff(running, func(s *seat) bool {
		if ended {
			klog.FromContext(ctx).Error(errGoexit, "sweep for orphans failed, nothing is cleaned; retrying",
				"retryIn", longestCallAgain)
			if !rest(ctx, longestCallAgain) {
				return false
			}
		}
		ended = true
		s.take(&openCall{Context: ctx, what: "the sweep of Options.Known"})
		defer s.leave()
		_ = c.sweep.Run(ctx) // it ends with ctx and has no other error
		return false
	})
}

func (k *known[T]) Sync(ctx context.Context) error { return k.in.WaitForSync(ctx) }

func (k *known[T]) Find(key Key) (types.UID, bool) {
	object, ok := k.in.Get(key)
	if !ok {
		return "", false
	}
	return object.GetUID(), true
}

func (k *known[T]) Orphan(o names.Orphan) {
	if o.Replaced {
		k.mu.Lock()
		k.replaced[o.Key] = struct{}{}
		k.mu.Unlock()
	}
	k.add(o.Key)
}

func (k *known[T]) add(key Key) {
	k.controller.queue.AddWithOptions(key, queue.AddOptions{Lane: queue.Background, Cause: queue.Cause{
		Trigger: "known", Namespace: key.Namespace, Name: key.Name, Type: "orphan",
	}})
}

// forget drops what is another replica's business.
func (k *known[T]) forget(gone func(Key) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.replaced, func(key Key, _ struct{}) bool { return gone(key) })
}

func (k *known[T]) isReplaced(key Key) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.replaced[key]
	return ok
}

// handedOn notes that the old object's end has been seen to: now the new one.
func (k *known[T]) handedOn(key Key) {
	k.mu.Lock()
	delete(k.replaced, key)
	k.mu.Unlock()
	k.add(key)
}

func (k *known[T]) warn(e *names.RefusedError) {
	about := &corev1.ObjectReference{
		Kind: k.controller.kind, Namespace: e.Example.Key.Namespace, Name: e.Example.Key.Name, UID: e.Example.UID,
	}
	k.controller.warn(context.Background(), about, "OrphansRefused", "Sweep", "%s", e.Error())
}
