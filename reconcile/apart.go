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

// maxParked is the longest time that a key waits for its namespace without
// being checked again. It is a safety net: a key is normally released earlier.
const maxParked = 10 * time.Minute

// These are the reasons for not reconciling a key, as they appear in the log
// line about the key.
var (
	errUnsynced   = errors.New("the key's namespace has not been listed yet")
	errOutOfScope = errors.New("the key is outside the informer's scope, so it is not known whether its object exists")
)

// parking holds the keys that wait until the caches have the first list of
// their namespace or, after a takeover, until the caches of a namespace in
// apart are as new as the server. A namespace without a first list was added by
// SetNamespaces, or belongs to an informer with Options.Independent. The keys
// wait in the queue, so they do not block a worker.
type parking struct {
	warned atomic.Bool // whether a key that is out of scope has been logged

	mu      sync.Mutex // guards the fields below
	waiting map[string]map[Key]struct{}
	// apart contains the namespaces that had no first list, or whose watch
	// failed, when this replica took over. Their caches may be older than the
	// last writes of another replica. takeovers counts the takeovers.
	apart     map[string]bool
	takeovers int
	// ctx is the context of the goroutines that release keys. It is nil until
	// the controller runs. running counts these goroutines.
	ctx     context.Context //nolint:containedctx // from begin to the end of the controller
	running *sync.WaitGroup
}

// begin allows keys to wait until ctx ends. running counts the goroutines that
// release them.
func (a *parking) begin(ctx context.Context, running *sync.WaitGroup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.running = ctx, running
}

// setApart returns, at a takeover, the independent namespaces that the caches
// have not listed yet, or whose watches fail. The keys of these namespaces are
// held back until takeOverNamespace has returned. So the keys of other
// namespaces need not wait for them.
func (a *parking) setApart(informers sources) map[string]bool {
	apart := map[string]bool{}
	for _, s := range informers {
		if !s.Parts().Independent() {
			continue
		}
		for _, namespace := range s.Parts().Missing() {
			apart[namespace] = true
		}
		for namespace := range s.Parts().Unwell() {
			apart[namespace] = true
		}
	}
	delete(apart, "") // a watch of all namespaces, for which all keys wait
	a.mu.Lock()
	defer a.mu.Unlock()
	a.apart = apart
	a.takeovers++
	return apart
}

// holdsBack reports whether the keys of a namespace must wait.
func (a *parking) holdsBack(namespace string, informers sources) bool {
	if slices.ContainsFunc(informers, func(s source) bool { return !s.Parts().SyncedIn(namespace) }) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.apart[namespace]
}

// putBack ends an item without a reconcile. The key stays in the queue until it
// is released, and is dispatched after maxParked at the latest.
func (c *core) putBack(item queue.Item[Key]) {
	c.keep(item, queue.Background, maxParked)
	item.Done()
}

// keep makes the key of an item, which was not reconciled, stay in the queue
// when the item ends. The key is dispatched again after d, or once it is
// released.
func (c *core) keep(item queue.Item[Key], lane queue.Lane, d time.Duration) {
	key := item.Key()
	c.queue.Parts().Discount(key)
	item.Hold(d)
	c.queue.AddWithOptions(key, queue.AddOptions{Lane: lane})
	for _, cause := range item.Causes() {
		c.queue.AddWithOptions(key, queue.AddOptions{Lane: lane, Cause: cause})
	}
}

// park ends an item without a reconcile. The key stays in the queue until its
// namespace has been listed, and is dispatched after maxParked at the latest.
func (c *core) park(item queue.Item[Key]) {
	key := item.Key()
	c.putBack(item)
	a := &c.parking
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == nil {
		a.waiting = map[string]map[Key]struct{}{}
	}
	keys := a.waiting[key.Namespace]
	if keys == nil {
		keys = map[Key]struct{}{}
		a.waiting[key.Namespace] = keys
		ctx := a.ctx
		a.running.Go(func() { c.awaitNamespace(ctx, key.Namespace) })
	}
	keys[key] = struct{}{}
}

// awaitNamespace releases the keys of a namespace when all caches have listed
// it. With a Leader or Shards, it then waits until the caches are as new as the
// server, for at most takeoverDeadline, and does so again after each takeover
// in the meantime.
func (c *core) awaitNamespace(ctx context.Context, namespace string) {
	for _, s := range c.sources {
		if s.Parts().WaitForSyncIn(ctx, namespace) != nil {
			return // ctx has ended
		}
	}
	var keys []Key
	for isFresh := false; !isFresh && ctx.Err() == nil; {
		takeovers := c.parking.takeoverCount()
		if c.elects() != nil {
			c.takeOverNamespace(ctx, namespace)
		}
		keys, isFresh = c.parking.release(namespace, takeovers)
	}
	for _, key := range keys {
		c.queue.Release(key)
	}
	if c.listed != nil {
		c.listed()
	}
}

func (a *parking) takeoverCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.takeovers
}

// release returns the keys that have waited for a namespace, and holds back no
// more keys of it. It returns false if there was a later takeover than
// takeovers, for which the caches of the namespace may be too old.
func (a *parking) release(namespace string, takeovers int) (keys []Key, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.apart[namespace] && a.takeovers != takeovers {
		return nil, false
	}
	keys = slices.Collect(maps.Keys(a.waiting[namespace]))
	delete(a.waiting, namespace)
	delete(a.apart, namespace)
	return keys, true
}

// takeOverNamespace waits, as takeOver does for all namespaces, until the
// caches are as new as the server is now. It is for a namespace that setApart
// has set apart. For each cache that is not as new after takeoverDeadline,
// it logs an error.
func (c *core) takeOverNamespace(ctx context.Context, namespace string) {
	limited, cancel := context.WithTimeout(ctx, takeoverDeadline)
	defer cancel()
	var waiting sync.WaitGroup
	for _, s := range c.sources {
		waiting.Go(func() {
			if err := s.Parts().WaitForLatestIn(limited, namespace); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "caches may not have seen the last writes of another replica, taking over",
					"controller", c.name, "namespace", namespace)
			}
		})
	}
	waiting.Wait()
}

// lookUp returns the cached object of key, and false if the object does not
// exist.
//
// lookUp returns errUnsynced or errOutOfScope if it is not known whether the
// object exists, and the errors of the server. If the newest state of the
// object cannot be read, it returns a terminal error. A retry would not help,
// and the change that corrects the object enqueues its key.
func lookUp[T informer.Object](
	ctx context.Context, cache *informer.Informer[T], key Key,
) (object T, ok bool, err error) {
	for {
		if err := cache.Unreadable(key); err != nil {
			return object, false, Terminal(err)
		}
		if object, ok = cache.Get(key); ok {
			return object, true, nil
		}
		absence, err := cache.Parts().Absent(ctx, key)
		switch {
		case err != nil:
			return object, false, err
		case absence == parts.Unsynced:
			return object, false, errUnsynced
		case absence == parts.OutOfScope:
			return object, false, errOutOfScope
		case absence == parts.Deleted && cache.Unreadable(key) == nil: // it may have become unreadable meanwhile
			return object, false, nil
		}
	}
}

// passesOver reports whether err is a reason not to call the reconciler. An
// attempt with such an error ends with passOver.
func passesOver(err error) bool {
	return err == errUnsynced || err == errOutOfScope || err == errReferencesUnknown //nolint:errorlint // not wrapped
}

// passOver ends an attempt that has not called the reconciler. reason is
// errUnsynced, errOutOfScope or errReferencesUnknown.
func (c *Controller) passOver(t *reconcileContext, reason error) {
	defer c.stats.active.Add(-1)
	t.end()
	t.close()
	c.loops.observe(t.item, nil)
	key := t.item.Key()
	if reason == errReferencesUnknown { //nolint:errorlint // not wrapped
		c.references.park(key, func() { c.putBack(t.item) })
		return
	}
	if reason == errUnsynced { //nolint:errorlint // not wrapped
		c.slots.noteDeletion(key) // its slot may move to another replica before the namespace is listed
		c.park(t.item)
		return
	}
	log := klog.FromContext(t)
	if !c.parking.warned.Swap(true) {
		log.Info("not reconciling a key, logging further ones at verbosity 1", "reason", reason.Error())
	} else {
		log.V(1).Info("not reconciling a key", "reason", reason.Error())
	}
	c.orphans.drop(key)
	c.slots.note(key, verdict{})
	c.failures.note(t.item, verdict{})
	c.queue.Parts().Discount(key)
	t.item.Done()
}
