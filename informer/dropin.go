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

// sourceOfListerWatcher returns the source of a shared informer, whose
// ListerWatcher does not show what it does: whether it sends requests is known
// only after each call.
func sourceOfListerWatcher[T Object](c *dropin.Client[T]) source {
	of := source{
		dropin: c, sends: &atomic.Bool{}, reach: reach{certainty: certain},
		unstreamed: watchlist.DoesClientNotSupportWatchListSemantics(c.ListerWatcher),
	}
	of.list = func(ctx context.Context, opts metav1.ListOptions) (k8sruntime.Object, error) {
		asked := &askedBy{Context: ctx}
		list, err := c.List(asked, opts)
		of.sends.Store(asked.isRequest())
		return of.genuine(list, err)
	}
	of.watch = func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		asked := &askedBy{Context: ctx}
		w, err := c.Watch(asked, opts)
		of.sends.Store(asked.isRequest())
		return w, err
	}
	return of
}

// isSimulated reports whether no API server answers, as far as that is known.
func (of source) isSimulated() bool { return of.fake || of.sends != nil && !of.sends.Load() }

// mayShare reports whether others may have the objects that the source returns:
// then they are copied before they are modified.
func (of source) mayShare() bool { return of.returnsShared || of.sends != nil && !of.sends.Load() }

// isRequest reports whether a REST client of client-go has asked first.
func (a *askedBy) isRequest() bool {
	a.once.Do(func() {}) // nobody has asked; who asks later does so beside this
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

// unpacked returns a list of the objects of a list, each of which has its own
// memory, transformed and sharing equal parts with other objects.
func (r *reflectorStore[T]) unpacked(list k8sruntime.Object) (k8sruntime.Object, error) {
	items, err := meta.ExtractListWithAlloc(list)
	if err != nil {
		return nil, err
	}
	of, err := meta.ListAccessor(list)
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
		ResourceVersion: of.GetResourceVersion(), Continue: of.GetContinue(), RemainingItemCount: of.GetRemainingItemCount(),
	}}, nil
}

// observed is the contents of a store whose changes an observer is told of in
// the step in which they are stored, with what client-go tells its handlers:
// also what has not changed.
type observed[T Object] struct {
	store *store[T]
	to    dropin.Observer[T]
}

var _ contents[Object] = observed[Object]{}

// Put implements [contents].
func (o observed[T]) Put(it *tree.Item[T]) {
	s := o.store
	s.identity.learnKind(it.Object)
	o.to.Lock()
	defer o.to.Unlock()
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	c := s.changeTo(it)
	switch stored := s.storeChange(c); {
	case stored:
		o.to.Put(oldOf(c), it.Object)
	case c.Old != nil && s.table.Get(it.Key) == nil:
		o.to.Lost(c.Old.Object)
	}
}

// Remove implements [contents].
func (o observed[T]) Remove(last T) {
	s := o.store
	o.to.Lock()
	defer o.to.Unlock()
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	key := bound.KeyOf(last)
	cached := s.table.Get(key)
	s.removeLocked(key, last)
	switch unknown := whyStub(last) != nil; {
	case !unknown:
		o.to.Deleted(last)
	case cached != nil:
		o.to.Lost(cached.Object)
	}
}

// Replace implements [contents].
func (o observed[T]) Replace(rv string, items []*tree.Item[T], how versions.Occasion, done func()) {
	s := o.store
	tree.Sort(items)
	o.to.Lock()
	defer o.to.Unlock()
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
	o.to.Replaced(lost, func(yield func(T, T) bool) {
		for _, it := range next.root.AppendItems(nil) {
			before := it.Object
			if len(put) > 0 && put[0].New == it {
				before = oldOf(put[0])
				put = put[1:]
			}
			if !yield(before, it.Object) {
				return
			}
		}
	}, rv)
}

// oldOf returns the object before a change, the zero T if there was none.
func oldOf[T Object](c tree.Change[T]) (old T) {
	if c.Old != nil {
		old = c.Old.Object
	}
	return old
}

// CaughtUp implements [contents].
func (o observed[T]) CaughtUp(rv string) { o.to.CaughtUp(rv) }

// direct is a store that a shared informer shows as a [cache.Store], to which
// its users may write.
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
