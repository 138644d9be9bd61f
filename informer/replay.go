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
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/keyspace"
)

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
	if older(p.to, p.from) {
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
		if older(rv, list.rv) {
			rv = list.rv
		}
	}
	return cmp.Or(rv, f.marks.lowest())
}

// replay watches from p.from on, and returns nil when it has come to p.to or the server
// has ended the watch in its time.
func (r *reflectorStore[T]) replay(ctx context.Context, p *replay) error {
	if !older(p.from, p.to) {
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
	if t == watch.Deleted && keyspace.Has(p.set, key.Namespace) && r.sink.store.table.get(key) == nil {
		p.deleted(key)
	}
	return !older(object.GetResourceVersion(), p.to)
}
