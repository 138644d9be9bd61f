package informer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/keyspace"
)

const (
	// watchCatchUp is how long waitForLatest waits for the watch before it
	// lists the remaining pages.
	watchCatchUp = time.Second
	// catchUpPage is the number of objects in a page.
	catchUpPage = 500
	// catchUpTimeout bounds each request.
	catchUpTimeout = 30 * time.Second
	// catchUpPoll is how often the cache is checked.
	catchUpPoll = 10 * time.Millisecond
)

// The errors of WaitForLatest, besides the errors of requests.
var (
	errWrapped = errors.New("a wrapped informer cannot read the server's resourceVersion: make the informer with For")
	errEnded   = errors.New("the watch has ended")
)

// waitForLatest waits until the cache is as new as the server. If target is
// nil, this concerns all objects. Otherwise target is a key, and this concerns
// only the object with that key or, if the key has no name, the objects of its
// namespace.
func (f *feed[T]) waitForLatest(ctx context.Context, target *types.NamespacedName) error {
	final := func(err error) bool { return errors.Is(err, errWrapped) }
	return f.retry(ctx, nil, "cannot determine the server's resourceVersion", final, func() error {
		if err := f.waitToCatchUp(ctx, target); err != nil {
			return err
		}
		return f.catchUp(ctx, target)
	})
}

// waitToCatchUp waits for the first lists of the watches that must catch up. If
// the namespaces are independent and target is nil, it waits only for the first
// list of one of them.
func (f *feed[T]) waitToCatchUp(ctx context.Context, target *types.NamespacedName) error {
	switch {
	case target != nil && f.connect != nil:
		return f.waitForSyncIn(ctx, target.Namespace)
	case f.options.Independent:
		return f.waitUntil(ctx, f.hasStarted)
	}
	return f.waitForSync(ctx)
}

// retry calls try until try succeeds or returns a final error, ended is closed,
// or ctx ends. It logs the errors of try. If ctx ends, the returned error says
// so.
func (f *feed[T]) retry(
	ctx context.Context, ended <-chan struct{}, message string, final func(error) bool, try func() error,
) error {
	for pause := f.options.BackoffBase; ; pause = min(2*pause, f.options.BackoffCap) {
		err := try()
		if err == nil || final(err) || ctx.Err() != nil {
			return withCause(ctx, err)
		}
		f.log().Error(err, message+", retrying", "retryIn", pause)
		select {
		case <-ctx.Done():
			return withCause(ctx, err)
		case <-ended:
			return requests.ErrNotRunning
		case <-time.After(pause):
		}
	}
}

// withCause adds the reason why ctx has ended to an error that does not contain
// it.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() == nil || err == nil || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// catchUp waits until each watch that may deliver the object with the key
// target has caught up with the server. If target is nil, it waits for all
// watches that have synced before.
func (f *feed[T]) catchUp(ctx context.Context, target *types.NamespacedName) error {
	watches, _ := f.current()
	for _, r := range watches {
		watched := r.source.namespace
		if target == nil && r.progress.synced.Load() || target != nil && (watched == "" || watched == target.Namespace) {
			if err := r.catchUp(ctx, target); err != nil {
				return err
			}
		}
	}
	return nil
}

// catchUp lists the objects that count for target, page by page, and waits
// until the watch has delivered them. It lists no further page if, after the
// first one, the watch soon reaches the resourceVersion of the list.
func (r *reflectorStore[T]) catchUp(ctx context.Context, target *types.NamespacedName) error {
	if r.source.follows != nil {
		return errWrapped
	}
	b := newBacklog(r, catchUpPage, target)
	for first := true; ; first = false {
		hasMore, err := b.addPage(ctx)
		if err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		if !hasMore {
			break
		}
		if first && !r.disordered.Load() && b.wait(ctx, time.After(watchCatchUp), b.reached) == nil {
			return b.verdict()
		}
	}
	b.addMissing()
	if err := b.wait(ctx, nil, b.empty); err != nil {
		return fmt.Errorf("%d objects are not up to date with resourceVersion %s: %w", len(b.undelivered), b.rv, err)
	}
	if b.reached() {
		return b.verdict()
	}
	return nil
}

// backlog is the set of objects that one watch has yet to deliver to reach a
// given resourceVersion of the server.
type backlog[T Object] struct {
	reflector *reflectorStore[T]
	limit     int64 // number of objects in a page
	// target is the only object that counts. If it has no name, all objects of
	// its namespace count. If it is nil, all objects count.
	target *types.NamespacedName
	// complete is the set of shards that were complete when the list started.
	// In a cache of some shards, only objects of these shards count.
	complete keyspace.Set
	epoch    int    // the reflector's epoch before the list was requested
	startRV  string // the watch's resourceVersion before the list was requested
	rv       string // the resourceVersion of the list
	token    string // the continue token of the next page
	// base is the cache at startRV, or newer.
	base Snapshot[T]
	// idle is true if no watch changes the cache during the list. Contents
	// can then be compared, too.
	idle bool

	listed map[types.NamespacedName]struct{}
	// undelivered contains the objects that the watch has yet to deliver, each
	// with its resourceVersion, or with "" for a deletion.
	undelivered map[types.NamespacedName]string
	// lost is true if the server has lost a state that the cache has.
	lost bool
}

func newBacklog[T Object](r *reflectorStore[T], limit int64, target *types.NamespacedName) *backlog[T] {
	b := &backlog[T]{
		reflector: r, limit: limit, target: target,
		listed: map[types.NamespacedName]struct{}{}, undelivered: map[types.NamespacedName]string{},
	}
	if r.part != nil {
		b.complete = r.part.Complete()
	}
	b.epoch = r.epoch()
	b.startRV = b.mark()
	b.base = r.sink.store.snapshot()
	return b
}

// counts reports whether the cache should have the object of key.
func (b *backlog[T]) counts(key types.NamespacedName) bool {
	return (b.target == nil || *b.target == key || b.target.Name == "" && b.target.Namespace == key.Namespace) &&
		(b.reflector.part == nil || keyspace.Has(b.complete, key.Namespace))
}

// keeps reports whether namespace is in a shard that is kept.
func (r *reflectorStore[T]) keeps(namespace string) bool {
	return r.part == nil || keyspace.Has(r.part.Wanted(), namespace)
}

// addPage requests one page of the list, and reports whether there are more.
// The request has no resourceVersion, because the server then answers with its
// newest state, and not with an older state from its cache. addPage returns
// requests.ErrRestored if the page shows that the server was restored.
func (b *backlog[T]) addPage(ctx context.Context) (hasMore bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	options := metav1.ListOptions{Limit: b.limit, Continue: b.token}
	b.reflector.selects(&options)
	if part := b.reflector.part; part != nil {
		part.Select(&options, b.complete)
	}
	if b.target != nil {
		options.FieldSelector = selecting(*b.target, options.FieldSelector)
	}
	page, err := b.reflector.list(ctx, options)
	if err != nil {
		return false, err
	}
	list, err := meta.ListAccessor(page)
	if err != nil {
		return false, err
	}
	rv, newest := list.GetResourceVersion(), newestOn[T](page)
	b.reflector.noteOrder(rv, newest)
	b.token = list.GetContinue()
	switch ordered := b.reflector.isOrdered(); {
	case ordered && rv != "" && versions.Older(rv, b.startRV):
		b.rv = rv
		return false, b.restored()
	case !ordered && b.reflector.comparable():
		rv = b.atLeast(rv, newest)
	}
	b.rv = rv
	return b.token != "", meta.EachListItem(page, func(object runtime.Object) error {
		item, ok := object.(T)
		switch {
		case !ok:
			return nil
		case b.contradicts(item):
			return b.restored()
		}
		b.add(item)
		return nil
	})
}

// contradicts reports whether the listed item shows that the server's history
// differs from the history in the cache.
func (b *backlog[T]) contradicts(item T) bool {
	key := bound.KeyOf(item)
	seenRV, _, ok := b.reflector.newest(b.reflector.sink.store.snapshot(), key)
	if !b.counts(key) || ok && versions.Older(b.startRV, seenRV) {
		return false // its shard is not kept, or it has changed since
	}
	h := b.reflector.historyOf(b.base, b.startRV)
	if b.idle {
		if transformed, err := b.reflector.transform(item); err == nil {
			item, h.contents = transformed, 1
		}
	}
	return h.lacks(item)
}

// add records that the list contains item. If the cache does not have the
// object, or has an older state of it, add adds the object to undelivered.
func (b *backlog[T]) add(item T) {
	key := bound.KeyOf(item)
	if !b.counts(key) {
		return // fakes ignore field selectors, and some servers ignore shards
	}
	b.listed[key] = struct{}{}
	seenRV, uid, ok := b.reflector.newest(b.reflector.sink.store.snapshot(), key)
	if !ok || versions.Older(seenRV, item.GetResourceVersion()) {
		b.undelivered[key] = item.GetResourceVersion()
	}
	b.lost = b.lost || ok && b.hasLost(seenRV, uid, item)
}

// hasLost reports whether the server has lost a state of an object because it
// was restored. seenRV and uid are the resourceVersion and the UID of the state
// that the watch has delivered, and item is the state in the list. The server
// has lost the delivered state if the list is at least as new, but contains an
// older state, or a different object with the same resourceVersion.
func (b *backlog[T]) hasLost(seenRV string, uid types.UID, item T) bool {
	listed := item.GetResourceVersion()
	return !versions.Older(b.rv, seenRV) && (versions.Older(listed, seenRV) || listed == seenRV && uid != item.GetUID())
}

// verdict returns requests.ErrRestored if the cache has a state that the server
// cannot have had. It must be called after reached has returned true.
func (b *backlog[T]) verdict() error {
	if !b.reflector.isOrdered() || b.rv == "" {
		return nil
	}
	cached := b.reflector.sink.store.snapshot()
	for key, rv := range b.undelivered {
		seenRV, _, ok := b.reflector.newest(cached, key)
		if ok && b.reflector.keeps(key.Namespace) {
			b.lost = b.lost || rv == "" && !versions.Older(b.rv, seenRV) || rv != "" && versions.Older(seenRV, rv)
		}
	}
	if b.lost {
		return b.restored()
	}
	return nil
}

// restored makes the reflector list all objects again, and returns
// requests.ErrRestored.
func (b *backlog[T]) restored() error {
	b.reflector.noteRestored(b.epoch, b.mark(), b.rv)
	return requests.ErrRestored
}

// newest returns the resourceVersion and the UID of the newest state of an
// object that the watch has delivered. It returns false if the object is
// neither cached nor unreadable.
func (r *reflectorStore[T]) newest(cached Snapshot[T], key types.NamespacedName) (rv string, uid types.UID, ok bool) {
	e := r.sink.store.unreadable.get(key)
	object, ok := cached.Get(key)
	switch {
	case e != nil && (!ok || !versions.Older(e.ResourceVersion, object.GetResourceVersion())):
		return e.ResourceVersion, e.UID, true
	case ok:
		return object.GetResourceVersion(), object.GetUID(), true
	}
	return "", "", false
}

// addMissing adds to undelivered, as deletions, the cached and the unreadable
// objects that the server has not listed, except objects that are newer than
// the list. It must be called after the last page.
func (b *backlog[T]) addMissing() {
	add := func(key types.NamespacedName, rv string) {
		_, listed := b.listed[key]
		if b.counts(key) && !listed && !versions.Older(b.rv, rv) {
			b.undelivered[key] = ""
		}
	}
	store, namespace := b.reflector.sink.store, b.reflector.source.namespace
	cached := store.snapshot()
	objects := cached.All()
	if namespace != "" {
		objects = cached.Namespace(namespace)
	}
	for object := range objects {
		add(bound.KeyOf(object), object.GetResourceVersion())
	}
	for _, m := range store.unreadable.metadata() {
		if namespace == "" || m.Namespace == namespace {
			add(bound.KeyOf(&m), m.ResourceVersion)
		}
	}
}

// reached reports whether the watch has reached the resourceVersion of the
// list.
func (b *backlog[T]) reached() bool { return !versions.Older(b.mark(), b.rv) }

func (b *backlog[T]) mark() string { return b.reflector.sink.marks.Of(b.reflector.source.namespace) }

// empty removes from undelivered what the watch has delivered, and reports
// whether nothing is left. If resourceVersions are ordered, and the watch has
// reached the resourceVersion of the list, it only returns true.
func (b *backlog[T]) empty() bool {
	if b.reached() && !b.reflector.disordered.Load() {
		return true
	}
	cached := b.reflector.sink.store.snapshot() // a snapshot is never newer than the results of Get
	for key, rv := range b.undelivered {
		newest, _, ok := b.reflector.newest(cached, key)
		switch {
		case !b.reflector.keeps(key.Namespace): // its shard was removed
			delete(b.undelivered, key)
		case rv == "" && (!ok || versions.Older(b.rv, newest)),
			rv != "" && ok && !versions.Older(newest, rv),
			rv != "" && !versions.Older(b.mark(), rv): // it was deleted again
			delete(b.undelivered, key)
		}
	}
	return len(b.undelivered) == 0
}

// wait returns when done returns true, when limit fires (nil means never), or
// when ctx or the watch ends.
func (b *backlog[T]) wait(ctx context.Context, limit <-chan time.Time, done func() bool) error {
	ticks := time.Tick(catchUpPoll)
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit:
			return context.DeadlineExceeded
		case <-b.reflector.ended:
			return errEnded
		case <-ticks:
		}
	}
	return nil
}

// selecting returns a field selector for the object of key or, if key has no
// name, for the objects of its namespace. The result is combined with selector.
func selecting(key types.NamespacedName, selector string) string {
	var terms []string
	if key.Name != "" {
		terms = append(terms, "metadata.name="+fields.EscapeValue(key.Name))
	}
	if key.Namespace != "" {
		terms = append(terms, "metadata.namespace="+fields.EscapeValue(key.Namespace))
	}
	if selector != "" {
		terms = append(terms, selector)
	}
	return strings.Join(terms, ",")
}
