package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/pager"

	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// divisible reports whether the feed can keep the objects of some shards only.
func (f *feed[T]) divisible() bool {
	from := f.sources[0]
	return !f.options.Whole && f.connect == nil && from.follows == nil && !from.fake &&
		from.reach.namespace == "" &&
		scopeOf[T](f.options, from.scope, false) != meta.RESTScopeNameRoot
}

// addShards keeps the objects of set until remove is called with them.
func (f *feed[T]) addShards(ctx context.Context, set keyspace.Set) (remove func(keyspace.Set), err error) {
	select {
	case f.adding <- struct{}{}: // one after the other
		defer func() { <-f.adding }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f.mu.Lock()
	s := f.session
	if s == nil || s.stopping {
		f.mu.Unlock()
		return nil, errNotRunning
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errNotRunning) })()
	if s.partial == nil {
		f.mu.Unlock()
		return func(keyspace.Set) {}, f.waitForLatest(ctx, nil)
	}
	h := &hold{set}
	s.holds = append(s.holds, h)
	f.mu.Unlock()
	remove = func(removed keyspace.Set) { f.removeShards(s, h, removed) }
	if err := f.coverShards(ctx, s, set); err != nil {
		remove(set)
		return nil, err
	}
	return remove, nil
}

// coverShards starts the watch of the first shards, or extends that of others.
func (f *feed[T]) coverShards(ctx context.Context, s *session[T], set keyspace.Set) error {
	if len(set) == 0 {
		return nil
	}
	f.mu.Lock()
	var r *reflectorStore[T]
	if len(s.watches) > 0 {
		r = s.watches[0]
	}
	last := s.last
	f.mu.Unlock()
	if r != nil {
		return f.extend(ctx, s, r, set)
	}
	if last != nil { // it was cancelled
		<-last.ended
		f.marks.Forget("")
	}
	f.cover(s)
	f.mu.Lock()
	if s.stopping {
		f.mu.Unlock()
		return errNotRunning
	}
	f.watch(s, f.sources[0])
	r = s.watches[len(s.watches)-1]
	f.mu.Unlock()
	f.updateSynced()
	if err := f.waitForSync(ctx); err != nil || r.consistent.Load() {
		return err
	}
	return f.waitForLatest(ctx, nil)
}

// cover makes the store keep exactly the shards that holds want.
func (f *feed[T]) cover(s *session[T]) {
	f.store.writing.Lock()
	f.mu.Lock()
	set := s.wanted()
	f.mu.Unlock()
	before := f.store.shards.wanted()
	f.store.shards.change(set)
	if len(before) == 0 || !set.Includes(before) {
		f.store.retainLocked(func(namespace string) bool { return len(set) > 0 && keyspace.Has(set, namespace) })
	}
	f.store.writing.Unlock()
	f.store.delivery.run()
}

// removeShards takes shards out of a hold. The watch stays open and drops events of unwanted objects. If the
// server selects, it is reopened soon; otherwise that would not help.
func (f *feed[T]) removeShards(s *session[T], h *hold, removed keyspace.Set) {
	f.mu.Lock()
	h.set = h.set.Minus(removed)
	s.holds = slices.DeleteFunc(s.holds, func(of *hold) bool { return len(of.set) == 0 })
	var ending []*reflectorStore[T]
	if f.session == s && len(s.wanted()) == 0 {
		if ending, s.watches = s.watches, nil; len(ending) > 0 {
			s.last = ending[0]
		}
	}
	over, staying := f.session != s || s.stopping, s.watches
	f.mu.Unlock()
	for _, r := range ending {
		r.cancel()
		<-r.ended
	}
	if over {
		return
	}
	f.cover(s)
	f.updateSynced()
	for _, r := range staying {
		if side := r.filter.Load(); side == nil || *side == sideServer {
			r.watched.narrow(f.store.shards.wanted, func() bool { return serverSelects(r) })
		}
	}
}

// serverSelects reports whether the server leaves out the objects of other shards. No list may have said so yet, as a
// streaming one does not: then it asks for one object. Without an answer, it reports that the server does not.
func serverSelects[T Object](r *reflectorStore[T]) bool {
	if r.filter.Load() == nil {
		ctx, cancel := context.WithTimeout(r.ctx, catchUpTimeout)
		defer cancel()
		if !r.lists.begin() {
			return false
		}
		defer r.lists.end()
		options := metav1.ListOptions{Limit: 1}
		r.selectShards(&options, r.sink.store.shards.wanted())
		list, err := r.list(ctx, options)
		if err != nil {
			return false
		}
		r.note(list)
	}
	return *r.filter.Load() == sideServer
}

// extend adds shards to those that are watched: the watch is opened again where it is,
// for more, and then what it does not bring is listed.
func (f *feed[T]) extend(ctx context.Context, s *session[T], r *reflectorStore[T], set keyspace.Set) error {
	f.cover(s)
	f.store.writing.Lock()
	missing := f.store.shards.missing(set)
	if len(missing) == 0 { // another caller keeps them
		f.store.writing.Unlock()
		return f.waitForLatest(ctx, nil)
	}
	f.store.shards.fill(missing)
	f.store.writing.Unlock()
	if err := r.watched.covering(ctx, r.ended, missing); err != nil {
		return err
	}
	final := func(err error) bool { return errors.Is(err, errGivenUp) }
	if err := f.retry(ctx, r.ended, "cannot list the objects of more shards", final, func() error {
		return r.fill(ctx, missing)
	}); err != nil {
		return err
	}
	// Another goroutine may be calling the handlers.
	if !versions.WaitFor(ctx, func(done func()) func() { f.store.delivery.after(done); return func() {} }) {
		return context.Cause(ctx)
	}
	f.updateSynced()
	return nil
}

// fill lists the objects of set beside the watch, and stores them.
func (r *reflectorStore[T]) fill(ctx context.Context, set keyspace.Set) error {
	var items []*tree.Item[T]
	rv, filling, seen := "", r.sink.store.filling(), r.sink.marks.Of(r.source.namespace)
	options := metav1.ListOptions{Limit: r.sink.options.PageSize}
	r.selectShards(&options, set)
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
		defer cancel()
		list, err := r.list(ctx, options)
		if err != nil {
			return nil, err
		}
		r.note(list)
		if of, err := meta.ListAccessor(list); err == nil { // else it is the pager's error
			rv = of.GetResourceVersion()
		}
		if r.source.returnsShared {
			list = list.DeepCopyObject()
		}
		return list, nil
	})
	pages.PageBufferSize = 0
	// each in memory of its own: one that stays would keep the whole page, replaced objects and all
	if err := pages.EachListItemWithAlloc(ctx, options, func(obj runtime.Object) error {
		object, ok := obj.(T)
		if !ok || !keyspace.Has(set, object.GetNamespace()) {
			return nil
		}
		items = append(items, itemOf(object))
		return r.transformInPlace(object)
	}); err != nil {
		return err
	}
	if versions.Older(rv, seen) {
		r.noteRestored(seen, rv)
		return errRestored
	}
	return r.sink.store.fill(filling, set, items, rv)
}

// replayFor is how long a watch of the past is open, unless it has come to the present
// before: servers send a bookmark shortly before they end it.
const replayFor = 10 * time.Second

// LastResourceVersion is [Informer.LastResourceVersion].
func (s shards[T]) LastResourceVersion() string { return s.of.LastResourceVersion() }

// ServerResourceVersion returns how new the server is. It lists one object.
func (s shards[T]) ServerResourceVersion(ctx context.Context) (string, error) {
	i := s.of
	from := i.feed.currentSources()[0]
	if from.list == nil {
		return "", fmt.Errorf("asking for the resourceVersion of %s: %w", i.Name(), errWrapped)
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	page, err := from.list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("asking for the resourceVersion of %s: %w", i.Name(), err)
	}
	list, err := meta.ListAccessor(page)
	if err != nil {
		return "", err
	}
	return list.GetResourceVersion(), nil
}

// DeletedSince calls deleted with the key of each object of these shards that was
// deleted after rv and is not cached, as the objects are that were deleted before
// their shard was added. It watches again from rv, and returns when it has come as far as
// the cache was at the call, at most ten seconds after the server answers. A whole cache
// shows deletions itself: for one, nothing is called.
//
// Errors: that of the server, if it no longer remembers rv (IsResourceExpired
// of package apierrors reports true); an informer that is not running; that of ctx.
// Other failed requests are logged and repeated.
func (s shards[T]) DeletedSince(
	ctx context.Context, rv string, deleted func(types.NamespacedName), shards ...sharding.ShardRangeRequirement,
) error {
	set, err := setOf(shards)
	if err == nil {
		err = s.of.feed.replay(ctx, &replay{set: set, from: rv, deleted: deleted})
	}
	if err != nil {
		return fmt.Errorf("looking for deleted objects of %s: %w", s.of.Name(), err)
	}
	return nil
}

// replay watches the past events of some shards.
type replay struct {
	set      keyspace.Set
	from, to string // resourceVersions
	deleted  func(types.NamespacedName)
}

// replay tries until the server has told all of it.
func (f *feed[T]) replay(ctx context.Context, p *replay) error {
	watches, _ := f.current()
	switch {
	case len(watches) == 0:
		return errNotRunning
	case watches[0].shards == nil:
		return nil
	}
	r := watches[0]
	p.to = f.comeTo()
	if versions.Older(p.to, p.from) {
		return apierrors.NewResourceExpired(errRestored.Error()) // the server has lost what was deleted until then
	}
	return f.retry(ctx, r.ended, "cannot watch the deletions before a shard was added", absent.IsExpired, func() error {
		return r.replay(ctx, p)
	})
}

// comeTo returns how far the cache is: as the last list of shards, if the watch has not
// caught up with it.
func (f *feed[T]) comeTo() string {
	f.store.writing.Lock()
	defer f.store.writing.Unlock()
	rv := ""
	for _, list := range f.store.shards.beside {
		if versions.Older(rv, list.rv) {
			rv = list.rv
		}
	}
	return cmp.Or(rv, f.marks.Lowest())
}

// replay watches from p.from on, and returns nil when it has come to p.to or the server
// has ended the watch in its time.
func (r *reflectorStore[T]) replay(ctx context.Context, p *replay) error {
	if !versions.Older(p.from, p.to) {
		return nil
	}
	opts := metav1.ListOptions{
		ResourceVersion: p.from, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(replayFor / time.Second)),
	}
	r.selectShards(&opts, p.set)
	began := time.Now()
	w, err := openInTime(ctx, func(ctx context.Context) (watch.Interface, error) {
		return r.shards.watch(ctx, r.source, opts)
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	late := time.After(2 * replayFor)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			return errNoAnswer
		case e, open := <-w.ResultChan():
			switch {
			case !open && time.Since(began) >= replayFor-time.Second:
				return nil
			case !open:
				return errors.New("the watch has ended too early")
			case e.Type == watch.Error:
				return apierrors.FromObject(e.Object)
			}
			if object, ok := e.Object.(T); ok && replayed(r, p, e.Type, object) {
				return nil
			}
		}
	}
}

// replayed notes an event of the past, and reports whether it is the last.
func replayed[T Object](r *reflectorStore[T], p *replay, t watch.EventType, object T) (last bool) {
	key := bound.KeyOf(object)
	if t == watch.Deleted && keyspace.Has(p.set, key.Namespace) && r.sink.store.table.Get(key) == nil {
		p.deleted(key)
	}
	return !versions.Older(object.GetResourceVersion(), p.to)
}
