package informer

import (
	"context"
	"errors"
	"slices"

	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// hold contains the shards that one caller of AddShards needs.
type hold struct{ set keyspace.Set }

// keepHeld makes the cache keep exactly the shards of holds.
func (d *divided[T]) keepHeld() {
	d.store.writing.Lock()
	d.feed.mu.Lock()
	set := d.held()
	d.feed.mu.Unlock()
	previous := d.cover.Wanted()
	d.cover.Change(set)
	if len(previous) == 0 || !set.Includes(previous) {
		d.store.retainLocked(func(namespace string) bool { return len(set) > 0 && keyspace.Has(set, namespace) })
	}
	d.store.writing.Unlock()
	d.store.delivery.run()
}

// held returns the shards of all holds. feed.mu must be held.
func (d *divided[T]) held() keyspace.Set {
	sets := make([]keyspace.Set, len(d.holds))
	for n, h := range d.holds {
		sets[n] = h.set
	}
	return keyspace.Union(sets...)
}

// addShards makes the cache keep the objects of the shards in set, and returns
// when the cache has them. It keeps a shard until remove is called with it. If
// the session keeps all objects, addShards only waits until the cache is as new
// as the server, and remove does nothing. addShards is not a method of feed,
// because each method of feed is linked into every program, together with the
// types that it uses.
func addShards[T Object](ctx context.Context, f *feed[T], set keyspace.Set) (remove func(keyspace.Set), err error) {
	select {
	case f.adding <- struct{}{}: // one call at a time
		defer func() { <-f.adding }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f.mu.Lock()
	s := f.session
	if s == nil || s.stopping {
		f.mu.Unlock()
		return nil, requests.ErrNotRunning
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(requests.ErrNotRunning) })()
	d, ok := f.part().(*divided[T])
	if !ok {
		f.mu.Unlock()
		return func(keyspace.Set) {}, f.waitForLatest(ctx, nil)
	}
	h := &hold{set}
	d.holds = append(d.holds, h)
	f.mu.Unlock()
	remove = func(removed keyspace.Set) { d.remove(s, h, removed) }
	if err := d.add(ctx, s, set); err != nil {
		remove(set)
		return nil, err
	}
	return remove, nil
}

// add starts the watch for the first shards, or extends a running watch.
func (d *divided[T]) add(ctx context.Context, s *session[T], set keyspace.Set) error {
	if len(set) == 0 {
		return nil
	}
	f := d.feed
	f.mu.Lock()
	watches, last := s.watches, d.lastWatch
	f.mu.Unlock()
	if len(watches) > 0 {
		return d.extend(ctx, watches[0], set)
	}
	if last != nil { // the last watch was cancelled, and may not have ended yet
		<-last.ended
		f.marks.Forget("")
	}
	d.keepHeld()
	f.mu.Lock()
	if s.stopping {
		f.mu.Unlock()
		return requests.ErrNotRunning
	}
	f.watch(s, d.source)
	r := s.watches[len(s.watches)-1]
	f.mu.Unlock()
	f.updateSynced()
	if err := f.waitForSync(ctx); err != nil || r.consistent.Load() {
		return err
	}
	return f.waitForLatest(ctx, nil)
}

// remove removes shards from a hold. It ends the watch if no shards are left.
// Otherwise the watch stays open and drops events of objects that are not
// wanted. If the server selects by shard, the watch is soon opened again with
// fewer shards. If it does not, a new watch would deliver the same events.
func (d *divided[T]) remove(s *session[T], h *hold, removed keyspace.Set) {
	f := d.feed
	f.mu.Lock()
	h.set = h.set.Minus(removed)
	d.holds = slices.DeleteFunc(d.holds, func(held *hold) bool { return len(held.set) == 0 })
	var ending []*reflectorStore[T]
	if f.session == s && len(d.held()) == 0 {
		if ending, s.watches = s.watches, nil; len(ending) > 0 {
			d.lastWatch = ending[0]
		}
	}
	ended, staying := f.session != s || s.stopping, s.watches
	f.mu.Unlock()
	for _, r := range ending {
		r.cancel()
		<-r.ended
		d.side.Store(nil)
	}
	if ended {
		return
	}
	d.keepHeld()
	f.updateSynced()
	for _, r := range staying {
		if d.Side() != sideClient {
			r.watched.narrow(d.Wanted, func() bool { return d.serverSelects(r) })
		}
	}
}

// extend adds shards to the watch and the cache. It opens the watch again, with
// more shards and at the resourceVersion that it has reached, and then lists
// the objects that the watch does not deliver. If the cache has all these
// shards already, extend only waits until it is as new as the server.
func (d *divided[T]) extend(ctx context.Context, r *reflectorStore[T], set keyspace.Set) error {
	d.keepHeld()
	d.store.writing.Lock()
	missing := set.Minus(d.cover.Complete())
	if len(missing) == 0 { // another caller has added them
		d.store.writing.Unlock()
		return d.feed.waitForLatest(ctx, nil)
	}
	d.cover.Fill(missing)
	d.store.writing.Unlock()
	if err := r.watched.covering(ctx, r.ended, missing); err != nil {
		return err
	}
	final := func(err error) bool { return errors.Is(err, partial.ErrGivenUp) }
	if err := d.feed.retry(ctx, r.ended, "listing the objects of the added shards failed", final, func() error {
		return d.list(ctx, r, missing)
	}); err != nil {
		return err
	}
	// Another goroutine may be calling the handlers.
	if !versions.WaitFor(ctx, func(done func()) func() { d.store.delivery.notifyDelivered(done); return func() {} }) {
		return context.Cause(ctx)
	}
	d.feed.updateSynced()
	return nil
}
