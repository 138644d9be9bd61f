package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/parts"
	"github.com/homeostat/homeostat/queue"
)

// longestApart is after how long a key that waits for its namespace is looked at again, in
// case that nothing has released it.
const longestApart = 10 * time.Minute

// Why a key is not reconciled.
var (
	errUnsynced   = errors.New("its namespace has not been listed yet")
	errOutOfScope = errors.New("it is out of the scope of the controller's informer, so nothing is known of its object")
)

// apart has the keys that wait until the caches have the first list of their namespace:
// one that SetNamespaces has added, or one of an informer with Options.Independent. They
// wait in the queue, so no worker blocks.
type apart struct {
	warned atomic.Bool // of a key that is out of scope

	mu      sync.Mutex // guards the fields below
	waiting map[string]map[Key]struct{}
	// behind are the namespaces that had no first list when this replica took over: theirs
	// may be older than the last writes of another replica.
	behind map[string]bool
	// ctx is that of requests, nil if the controller does not run; running counts them.
	ctx     context.Context //nolint:containedctx // from begin to the end of the controller
	running *sync.WaitGroup
}

// begin lets keys wait until ctx ends.
func (a *apart) begin(ctx context.Context, running *sync.WaitGroup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.running = ctx, running
}

// noteBehind notes which namespaces the caches lack, when this replica takes over.
func (a *apart) noteBehind(all sources) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behind = map[string]bool{}
	for _, s := range all {
		if s.Parts().Independent() {
			for _, namespace := range s.Parts().Missing() {
				a.behind[namespace] = true
			}
		}
	}
}

// holdsBack reports whether keys of namespace have to wait.
func (a *apart) holdsBack(namespace string, all sources) bool {
	if slices.ContainsFunc(all, func(s source) bool { return !s.Parts().SyncedIn(namespace) }) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.behind[namespace]
}

// putBack ends an item without a reconcile, and keeps its key until it is released.
func (c *core) putBack(item queue.Item[Key]) {
	key := item.Key()
	item.Hold(longestApart)
	c.queue.AddWithOptions(key, queue.AddOptions{Lane: queue.Background})
	for _, cause := range item.Causes() {
		c.queue.AddWithOptions(key, queue.AddOptions{Lane: queue.Background, Cause: cause})
	}
	item.Done()
}

// park ends an item without a reconcile, and keeps its key until its namespace has been
// listed.
func (c *core) park(item queue.Item[Key]) {
	key := item.Key()
	c.putBack(item)
	a := &c.apart
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == nil {
		a.waiting = map[string]map[Key]struct{}{}
	}
	of := a.waiting[key.Namespace]
	if of == nil {
		of = map[Key]struct{}{}
		a.waiting[key.Namespace] = of
		ctx := a.ctx
		a.running.Go(func() { c.awaitNamespace(ctx, key.Namespace) })
	}
	of[key] = struct{}{}
}

// awaitNamespace releases the keys of a namespace when all caches have listed it.
func (c *core) awaitNamespace(ctx context.Context, namespace string) {
	for _, s := range c.sources {
		if s.Parts().WaitForSyncIn(ctx, namespace) != nil {
			return // ctx has ended
		}
	}
	if c.elects() != nil {
		c.takeOverNamespace(ctx, namespace)
	}
	c.apart.mu.Lock()
	keys := slices.Collect(maps.Keys(c.apart.waiting[namespace]))
	delete(c.apart.waiting, namespace)
	delete(c.apart.behind, namespace)
	c.apart.mu.Unlock()
	for _, key := range keys {
		c.queue.Release(key)
	}
	if c.listed != nil {
		c.listed()
	}
}

// takeOverNamespace is takeOver for a namespace that has been listed after it.
func (c *core) takeOverNamespace(ctx context.Context, namespace string) {
	limited, cancel := context.WithTimeout(ctx, takeoverDeadline)
	defer cancel()
	for _, s := range c.sources {
		if err := s.Parts().WaitForLatestIn(limited, namespace); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "caches may not have seen the last writes of another replica, taking over",
				"controller", c.name, "namespace", namespace)
		}
	}
}

// lookUp returns the cached object of key, and false if it is deleted.
//
// Errors: errUnsynced and errOutOfScope, if that is not known; a terminal one if the newest
// state of the object cannot be read, since the change that mends it leads to the key
// again; those of the server.
func lookUp[T informer.Object](ctx context.Context, in *informer.Informer[T], key Key) (object T, ok bool, err error) {
	for {
		if err := in.Unreadable(key); err != nil {
			return object, false, Terminal(err)
		}
		if object, ok = in.Get(key); ok {
			return object, true, nil
		}
		absence, err := in.Parts().Absent(ctx, key)
		switch {
		case err != nil:
			return object, false, err
		case absence == parts.Unsynced:
			return object, false, errUnsynced
		case absence == parts.OutOfScope:
			return object, false, errOutOfScope
		case absence == parts.Deleted && in.Unreadable(key) == nil: // nor has it become so in between
			return object, false, nil
		}
	}
}

// passesOver reports whether err is a reason for passOver.
func passesOver(err error) bool {
	return err == errUnsynced || err == errOutOfScope || err == errReferencesUnknown //nolint:errorlint // themselves
}

// passOver ends an attempt that has not called the reconciler, by reason: errUnsynced,
// errOutOfScope or errReferencesUnknown.
func (c *Controller) passOver(t *reconcileContext, reason error) {
	defer c.stats.active.Add(-1)
	t.end()
	t.close()
	c.loops.observe(t.item, nil)
	key := t.item.Key()
	if reason == errReferencesUnknown { //nolint:errorlint // itself
		c.references.park(key, func() { c.putBack(t.item) })
		return
	}
	if reason == errUnsynced { //nolint:errorlint // itself
		c.slots.noteDeletion(key) // in case that its slot goes meanwhile
		c.park(t.item)
		return
	}
	log := klog.FromContext(t)
	if !c.apart.warned.Swap(true) {
		log.Info("not reconciling a key, further ones at verbosity 1", "reason", reason.Error())
	} else {
		log.V(1).Info("not reconciling a key", "reason", reason.Error())
	}
	c.orphans.drop(key)
	c.slots.note(key, verdict{})
	c.failures.note(t.item, verdict{})
	t.item.Done()
}
