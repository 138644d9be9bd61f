package informer

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/watchlist"

	"github.com/homeostat/homeostat/informer/internal/dropin"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
)

// sourceOfListerWatcher returns the source of a shared informer. A
// ListerWatcher does not show whether it sends requests, so this is known only
// after each call.
func sourceOfListerWatcher[T Object](c *dropin.Client[T]) source {
	made := source{
		dropin: c, sends: &atomic.Bool{}, reach: reach{certainty: certain},
		unstreamed: watchlist.DoesClientNotSupportWatchListSemantics(c.ListerWatcher),
	}
	made.list = func(ctx context.Context, opts metav1.ListOptions) (k8sruntime.Object, error) {
		asked := &askedBy{Context: ctx}
		list, err := c.List(asked, opts)
		made.sends.Store(asked.isRequest())
		return made.genuine(list, err)
	}
	made.watch = func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		asked := &askedBy{Context: ctx}
		w, err := c.Watch(asked, opts)
		made.sends.Store(asked.isRequest())
		return w, err
	}
	return made
}

// isSimulated reports whether the answers do not come from an API server, as
// far as this is known.
func (s source) isSimulated() bool { return s.fake || s.sends != nil && !s.sends.Load() }

// mayShare reports whether the client may retain the objects that the source
// returns. They are copied before they are modified.
func (s source) mayShare() bool { return s.returnsShared || s.sends != nil && !s.sends.Load() }

// isRequest reports whether the first use of the context was in a REST client
// of client-go.
func (a *askedBy) isRequest() bool {
	a.once.Do(func() {}) // later uses of the context do not count
	frames := runtime.CallersFrames(a.callers)
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "k8s.io/client-go/rest.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// unpacked returns a list with the objects of another list. The objects are
// transformed, have their own memory, and share equal parts with other objects.
func (r *reflectorStore[T]) unpacked(list k8sruntime.Object) (k8sruntime.Object, error) {
	items, err := meta.ExtractListWithAlloc(list)
	if err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	for n, item := range items {
		object, ok := item.(T)
		if !ok {
			return nil, wrongType[T](item)
		}
		if object, err = r.transform(object); err != nil {
			return nil, err
		}
		if whyStub(object) == nil {
			r.sink.store.share(object)
		}
		items[n] = object
	}
	return &objectList{Items: items, ListMeta: metav1.ListMeta{
		ResourceVersion: accessor.GetResourceVersion(), Continue: accessor.GetContinue(), RemainingItemCount: accessor.GetRemainingItemCount(),
	}}, nil
}

// observed stores the objects of a shared informer, and tells an observer of
// each change in the step that stores it. As client-go does, it also reports
// objects that have not changed.
type observed[T Object] struct {
	store    *store[T]
	observer dropin.Observer[T]
}

var _ contents[Object] = observed[Object]{}

// Put implements [contents].
func (o observed[T]) Put(it *tree.Item[T]) {
	s := o.store
	s.identity.learnKind(it.Object)
	o.observer.Lock()
	defer o.observer.Unlock()
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	c := s.changeTo(it)
	switch stored := s.storeChange(c); {
	case stored:
		o.observer.Put(oldOf(c), it.Object)
	case c.Old != nil && s.table.Get(it.Key) == nil:
		o.observer.Lost(c.Old.Object)
	}
}

// Remove implements [contents].
func (o observed[T]) Remove(last T) {
	s := o.store
	o.observer.Lock()
	defer o.observer.Unlock()
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	key := bound.KeyOf(last)
	cached := s.table.Get(key)
	s.removeLocked(key, last)
	switch unknown := whyStub(last) != nil; {
	case !unknown:
		o.observer.Deleted(last)
	case cached != nil:
		o.observer.Lost(cached.Object)
	}
}

// Replace implements [contents].
func (o observed[T]) Replace(rv string, items []*tree.Item[T], how versions.Occasion, done func()) {
	s := o.store
	tree.Sort(items)
	o.observer.Lock()
	defer o.observer.Unlock()
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	next, changes, refused := s.list(everywhere, items, how, "")
	told := s.settleUnreadable(everywhere, refused, how, "")
	s.publish(next, batch[T]{done: s.unreadable.telling(told, done)})
	var lost []T
	var put []tree.Change[T] // in the order of the items
	for _, c := range changes {
		if c.New == nil {
			lost = append(lost, c.Old.Object)
		} else {
			put = append(put, c)
		}
	}
	o.observer.Replaced(lost, func(yield func(T, T) bool) {
		for _, it := range next.root.AppendItems(nil) {
			old := it.Object
			if len(put) > 0 && put[0].New == it {
				old = oldOf(put[0])
				put = put[1:]
			}
			if !yield(old, it.Object) {
				return
			}
		}
	}, rv)
}

// oldOf returns the object before a change, or nil.
func oldOf[T Object](c tree.Change[T]) (old T) {
	if c.Old != nil {
		old = c.Old.Object
	}
	return old
}

// CaughtUp implements [contents].
func (o observed[T]) CaughtUp(rv string) { o.observer.CaughtUp(rv) }

// direct is the store of a shared informer, to which its users can write as to
// a [cache.Store].
type direct[T Object] struct{ store *store[T] }

// Put implements [dropin.Store].
func (d direct[T]) Put(object T) {
	s := d.store
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	s.storeChange(s.changeTo(itemOf(object)))
}

// Remove implements [dropin.Store].
func (d direct[T]) Remove(key types.NamespacedName) {
	s := d.store
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	if it := s.table.Get(key); it != nil {
		s.removeLocked(key, it.Object)
	}
}

// Replace implements [dropin.Store].
func (d direct[T]) Replace(objects []T) {
	items := make([]*tree.Item[T], len(objects))
	for n, object := range objects {
		items[n] = itemOf(object)
	}
	d.store.replace("", items, versions.Relist, nil)
}
