package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/pager"

	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// shards implements [slots.Cache]. Its methods have names that no other
// interface has, so that a program which calls none of them links none of them.
type shards[T Object] struct{ informer *Informer[T] }

// RunShards runs the informer for a replica that works on some shards of the
// keys; see [Informer.Run]. It lists, watches and caches only the objects of
// shards that were added with AddShards, and objects without a namespace.
//
// It caches all objects while a call of Run is active, if Options.Whole is set,
// or if the kind has no namespaces. It does so as well if the informer was made
// by ForNamespaces, if it follows a cache of client-go, or if its client is
// bound to a namespace or is a fake.
//
// Several calls of RunShards and Run share one cache. joined is called once
// this call counts as a user of that cache. It may be nil. From then on
// HasSynced and WaitForSync also wait for the objects that this call needs.
func (s shards[T]) RunShards(ctx context.Context, joined func()) error {
	if !s.informer.feed.divisible() {
		return run(ctx, s.informer, nil, joined)
	}
	return run[T](ctx, s.informer, newDivided(s.informer.feed), joined)
}

// AddShards adds shards to the cache until remove is called with them. A shard
// is a range of the hash of the namespace. When AddShards returns, the cache
// has all objects of the shards, at least as new as the server was at the call,
// and every handler has received them as Added. Other shards remain watched,
// and are not listed again.
//
// remove removes the objects that no other call has added. They are delivered
// as Deleted before remove returns, unless another goroutine is calling
// handlers. Then that goroutine delivers them. A handler must not call
// AddShards or remove.
//
// A server with the feature ShardedListAndWatch sends only the objects of the
// shards. Other servers send all objects. If the client is a generated one for
// a built-in kind, objects of other shards are dropped before they are decoded,
// and otherwise before they are stored.
//
// AddShards logs and retries failed requests. It returns an error if a range is
// of a field other than object.metadata.namespace, if the informer is not
// running, or if ctx ends first.
func (s shards[T]) AddShards(
	ctx context.Context, shards ...sharding.ShardRangeRequirement,
) (remove func(shards ...sharding.ShardRangeRequirement), err error) {
	set, err := setOf(shards)
	var removeSet func(keyspace.Set)
	if err == nil {
		removeSet, err = addShards(ctx, s.informer.feed, set)
	}
	if err != nil {
		return nil, fmt.Errorf("adding shards to the informer of %s: %w", s.informer.Name(), err)
	}
	return func(shards ...sharding.ShardRangeRequirement) {
		if removed, err := setOf(shards); err == nil {
			removeSet(removed)
		}
	}, nil
}

// setOf returns the union of shards. The union leaves out each requirement that
// is not a range of the hash of the namespace, and the joined error names it.
func setOf(shards []sharding.ShardRangeRequirement) (set keyspace.Set, err error) {
	for _, requirement := range shards {
		r, ok, wrong := keyspace.Parse(keyspace.Requirement(requirement))
		if err = errors.Join(err, wrong); ok {
			set = keyspace.Union(set, keyspace.Set{r})
		}
	}
	return set, err
}

// CountNamespaces returns the number of objects that the server has in each
// namespace and that match the informer's selectors. It lists them page by page
// and retains none of them.
func (s shards[T]) CountNamespaces(ctx context.Context) (map[string]int, error) {
	i := s.informer
	counts := map[string]int{}
	for _, source := range i.feed.currentSources() {
		if source.list == nil {
			return nil, fmt.Errorf("counting the objects of %s: %w", i.Name(), errWrapped)
		}
		options := metav1.ListOptions{LabelSelector: i.options.LabelSelector, FieldSelector: i.options.FieldSelector}
		if err := pager.New(source.list).EachListItem(ctx, options, func(obj runtime.Object) error {
			if object, ok := obj.(T); ok {
				counts[object.GetNamespace()]++
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("counting the objects of %s: %w", i.Name(), err)
		}
	}
	return counts, nil
}

// replayTimeout is the timeout of a watch of past events. Ten seconds are
// enough for any number of events, because servers send a bookmark shortly
// before they end a watch.
const replayTimeout = 10 * time.Second

// SeenResourceVersion returns the same as [Informer.LastResourceVersion].
func (s shards[T]) SeenResourceVersion() string { return s.informer.LastResourceVersion() }

// ServerResourceVersion returns the server's resourceVersion. It lists one
// object.
func (s shards[T]) ServerResourceVersion(ctx context.Context) (string, error) {
	i := s.informer
	source := i.feed.currentSources()[0]
	if source.list == nil {
		return "", fmt.Errorf("reading the resourceVersion of %s: %w", i.Name(), errWrapped)
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	page, err := source.list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("reading the resourceVersion of %s: %w", i.Name(), err)
	}
	list, err := meta.ListAccessor(page)
	if err != nil {
		return "", err
	}
	return list.GetResourceVersion(), nil
}

// DeletedSince calls deleted with the key of each object of these shards that
// was deleted after rv and is not cached. For example, this finds the objects
// that were deleted before their shard was added. It opens a watch at rv, and
// returns when the watch has reached the state that the cache had at the call,
// or when the server ends the watch after ten seconds. A whole cache shows
// deletions itself, so deleted is not called for it.
//
// If the server does not remember rv any more, DeletedSince returns the
// server's error (IsResourceExpired of package apierrors). It logs and retries
// other failed requests. It also returns an error if the informer is not
// running, or if ctx ends first.
func (s shards[T]) DeletedSince(
	ctx context.Context, rv string, deleted func(types.NamespacedName), shards ...sharding.ShardRangeRequirement,
) error {
	set, err := setOf(shards)
	if err == nil {
		err = replayDeletions(ctx, s.informer.feed, &replay{set: set, fromRV: rv, deleted: deleted})
	}
	if err != nil {
		return fmt.Errorf("looking for deleted objects of %s: %w", s.informer.Name(), err)
	}
	return nil
}

// replay is a watch of past events of some shards.
type replay struct {
	set          keyspace.Set
	fromRV, toRV string // the resourceVersions at which the replay begins and ends
	deleted      func(types.NamespacedName)
}

// replayDeletions retries p until the server has sent all of its events. It
// does nothing if the cache keeps all objects. If the cache is older than
// p.fromRV, it returns an error and sends no request.
func replayDeletions[T Object](ctx context.Context, f *feed[T], p *replay) error {
	watches, _ := f.current()
	d, _ := f.part().(*divided[T])
	switch {
	case len(watches) == 0:
		return requests.ErrNotRunning
	case d == nil:
		return nil
	}
	r := watches[0]
	p.toRV = d.reachedRV()
	if versions.Older(p.toRV, p.fromRV) {
		return apierrors.NewResourceExpired(requests.ErrRestored.Error()) // the server has lost the deletions since then
	}
	const message = "reading the deletions from before a shard was added failed"
	return f.retry(ctx, r.ended, message, absent.IsExpired, func() error { return d.replay(ctx, p) })
}

// reachedRV returns the resourceVersion that the cache has reached. As long as
// the watch is behind the last list of shards, this is the resourceVersion of
// that list.
func (d *divided[T]) reachedRV() string {
	d.store.writing.Lock()
	defer d.store.writing.Unlock()
	return cmp.Or(d.cover.Newest(), d.feed.marks.Oldest())
}

// replay watches from p.fromRV. It returns nil when the watch has reached
// p.toRV, or when the server has ended the watch at its timeout. It opens no
// watch if p.fromRV is not older than p.toRV.
func (d *divided[T]) replay(ctx context.Context, p *replay) error {
	if !versions.Older(p.fromRV, p.toRV) {
		return nil
	}
	opts := metav1.ListOptions{
		ResourceVersion: p.fromRV, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(replayTimeout / time.Second)),
	}
	d.selects(&opts, p.set)
	began := time.Now()
	w, err := requests.OpenInTime(ctx, func(ctx context.Context) (watch.Interface, error) {
		return d.Watch(ctx, opts)
	}, nil)
	if err != nil {
		return err
	}
	defer w.Stop()
	timeout := time.After(2 * replayTimeout)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout:
			return requests.ErrNoAnswer
		case e, open := <-w.ResultChan():
			switch {
			case !open && time.Since(began) >= replayTimeout-time.Second:
				return nil
			case !open:
				return errors.New("the watch ended before its timeout")
			case e.Type == watch.Error:
				return apierrors.FromObject(e.Object)
			}
			if object, ok := e.Object.(T); ok && d.replayed(p, e.Type, object) {
				return nil
			}
		}
	}
}

// replayed handles a past event, and reports whether it is the last
// one.
func (d *divided[T]) replayed(p *replay, t watch.EventType, object T) (last bool) {
	key := bound.KeyOf(object)
	if t == watch.Deleted && keyspace.Has(p.set, key.Namespace) && d.store.table.Get(key) == nil {
		p.deleted(key)
	}
	return !versions.Older(object.GetResourceVersion(), p.toRV)
}

// serverSelects reports whether the server leaves out the objects of other
// shards. If no answer has shown this yet, it lists one object. It returns
// false if the server does not answer.
func (d *divided[T]) serverSelects(r *reflectorStore[T]) bool {
	if d.Side() == "" {
		ctx, cancel := context.WithTimeout(r.ctx, catchUpTimeout)
		defer cancel()
		if !r.lists.Begin() {
			return false
		}
		defer r.lists.End()
		options := metav1.ListOptions{Limit: 1}
		d.selects(&options, d.Wanted())
		if _, err := d.List(ctx, options); err != nil {
			return false
		}
	}
	return d.Side() == sideServer
}
