package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/watchlist"

	"github.com/homeostat/homeostat/informer/internal/dropin"
	"github.com/homeostat/homeostat/informer/internal/follow"
	"github.com/homeostat/homeostat/informer/internal/itemwise"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/suspect"
)

// Object is an API object, such as a *corev1.Pod, an
// *unstructured.Unstructured, or an object of the Go type of a custom resource.
type Object interface {
	metav1.Object
	runtime.Object
}

// Client reads objects of one kind, in one namespace or in all. Generated
// clients such as clientset.CoreV1().Pods("") implement it, and so do fake
// clients and clients made with client-go's package gentype. It must be safe
// for concurrent use.
//
// The compiler's "cannot infer T and L" means that the argument is not a
// Client. For example, clientset.CoreV1().Pods is a function: call it, or pass
// it to [ForNamespaces]. Wrap a dynamic or a metadata client in [Untyped].
type Client[T Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// untypedClient is a Client whose Get accepts subresources. The clients of
// client-go's packages dynamic and metadata are such clients.
type untypedClient[T Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Untyped returns a client of client-go's package dynamic or metadata as a
// Client. It is for kinds without a Go type, or for metadata only:
//
//	informer.For(informer.Untyped(dynamicClient.Resource(gvr)), nil)
//	informer.For(informer.Untyped(metadataClient.Resource(gvr)), nil)
func Untyped[T Object, L runtime.Object](c untypedClient[T, L]) Client[T, L] {
	return untyped[T, L]{c}
}

type untyped[T Object, L runtime.Object] struct{ untypedClient[T, L] }

// Get reads the object with this name. It never reads a subresource.
func (u untyped[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	return u.untypedClient.Get(ctx, name, opts)
}

var _ clients.Wrapper = untyped[Object, runtime.Object]{}

// Wrapped implements [clients.Wrapper].
func (u untyped[T, L]) Wrapped() clients.Inner { return clients.Inner{Client: u.untypedClient} }

// The errors of invalid arguments.
var (
	errNoClient  = errors.New("informer.For: the client is nil: pass one such as clientset.CoreV1().Pods(\"\")")
	errNoClients = errors.New("informer.ForNamespaces: the function that returns clients is nil: " +
		"pass one such as clientset.CoreV1().Pods")
)

// source lists and watches the objects of one namespace or of all. It is a
// Client without its type parameters.
type source struct {
	// namespace is the namespace that is listed and watched. It is empty if all
	// namespaces are watched, or if the client does not show its namespace with
	// certainty.
	namespace string
	// reach describes which namespaces the client reads.
	reach clients.Reach
	// server is the URL of the API server, or empty if the client does not show
	// it.
	server string
	// scope is the scope that the client declares, as the clients of
	// cluster.Kind do. It is empty for other clients.
	scope meta.RESTScopeName
	// resource is the resource that the client reads. Parts that the client
	// does not show are empty.
	resource schema.GroupVersionResource
	list     func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	watch    func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// rest sends the requests of client-go's clients for built-in kinds. It is
	// nil for other clients.
	rest   rest.Interface
	client string // the Go type of the client
	// metadataOnly reports whether the client reads only the metadata of
	// objects.
	metadataOnly bool
	// fake reports whether the client is a fake. Fakes cannot stream lists.
	fake bool
	// itemwise sends the requests of list and watch. It is nil for sources that
	// are not made from a Client.
	itemwise *itemwise.Reader
	// returnsShared reports whether the client may retain the objects that it
	// returns. They are copied before they are modified.
	returnsShared bool
	// follows is a *follow.Client[T] or nil. If it is set, the source copies
	// another cache and sends no requests: all fields above are zero, except
	// perhaps namespace and reach.
	follows any
	// dropin is a *dropin.Client[T] or nil. If it is set, sends reports whether
	// the last call has sent a request, and unstreamed reports whether its
	// ListerWatcher cannot stream lists.
	dropin     any
	sends      *atomic.Bool
	unstreamed bool
	// err is why the client cannot be used. If it is set, list and watch may be
	// nil.
	err error
}

// sourceOf returns the source of a client. It sends no request. The source of a
// nil client contains an error, and Validate returns that error.
func sourceOf[T Object, L runtime.Object](c Client[T, L]) source {
	if bound.IsNil(clients.Unwrapped(c)) {
		return source{err: errNoClient}
	}
	if f, ok := any(c).(*follow.Client[T]); ok {
		return source{follows: f, err: f.Err}
	}
	if d, ok := any(c).(*dropin.Client[T]); ok {
		return sourceOfListerWatcher(d)
	}
	reach := clients.ReachOf(c)
	namespace := ""
	if reach.Certainty == clients.Certain {
		namespace = reach.Namespace
	}
	resource := clients.ResourceOf(c)
	read := itemwise.New[T](c, client[T, L]{c}, resource)
	made := source{
		namespace: namespace,
		reach:     reach,
		server:    clients.ServerOf(c),
		itemwise:  read,
		resource:  resource,
		scope:     clients.ScopeOf(c),

		watch:         read.Watch,
		rest:          clients.GeneratedOf(c),
		client:        fmt.Sprintf("%T", c),
		metadataOnly:  reflect.TypeFor[T]() == reflect.TypeFor[*metav1.PartialObjectMetadata](),
		fake:          clients.IsFake(c),
		returnsShared: clients.ReturnsShared(c) && !read.IsOn(),
	}
	made.list = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		list, err := read.List(ctx, opts)
		return made.genuine(list, err)
	}
	return made
}

// client implements [itemwise.Requests] with a Client.
type client[T Object, L runtime.Object] struct{ inner Client[T, L] }

// List implements [itemwise.Requests].
func (c client[T, L]) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return c.inner.List(ctx, opts)
}

// Watch implements [itemwise.Requests].
func (c client[T, L]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return c.inner.Watch(ctx, opts)
}

// genuine returns list and err. If err is nil but list cannot have come from an
// API server, it returns an error that says why.
func (s source) genuine(list runtime.Object, err error) (runtime.Object, error) {
	if err == nil && !s.isSimulated() {
		err = cmp.Or(absent.List(list), s.otherResource(list))
	}
	return list, err
}

// otherResource returns an error if list says that it is of a different group
// or version than the resource that the source reads. For example, a gateway
// may have answered with a v1 List of the objects that it could reach, or a
// caching proxy that ignores the Accept header may have answered with the
// metadata only.
func (s source) otherResource(list runtime.Object) error {
	got := list.GetObjectKind().GroupVersionKind()
	switch want := s.resource.GroupVersion(); {
	case got.Kind == "" || want.Version == "" || s.metadataOnly && got.Group == metav1.GroupName:
	case got.GroupVersion() != want || got.Kind == "List" && got.Group == "":
		return suspect.Answerf("the answer is a %q of %q, not a list of %q",
			got.Kind, got.GroupVersion(), s.resource.Resource+"."+want.String())
	}
	return nil
}

// sourceOfListerWatcher returns the source of a shared informer. A
// ListerWatcher does not show whether it sends requests, so this is known only
// after each call.
func sourceOfListerWatcher[T Object](c *dropin.Client[T]) source {
	made := source{
		dropin: c, sends: &atomic.Bool{}, reach: clients.Reach{Certainty: clients.Certain},
		unstreamed: watchlist.DoesClientNotSupportWatchListSemantics(c.ListerWatcher),
	}
	made.list = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		asked := &clients.Asked{Context: ctx}
		list, err := c.List(asked, opts)
		made.sends.Store(asked.IsRequest())
		return made.genuine(list, err)
	}
	made.watch = func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		asked := &clients.Asked{Context: ctx}
		w, err := c.Watch(asked, opts)
		made.sends.Store(asked.IsRequest())
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

// unpacked returns a new list with the transformed objects of list. Each object
// is allocated by itself. Otherwise one cached object would keep the whole list
// in memory. Parts that equal parts of other cached objects are shared with
// them.
func (r *reflectorStore[T]) unpacked(list runtime.Object) (runtime.Object, error) {
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
		if itemwise.RefusalOf(object) == nil {
			r.sink.store.share(object)
		}
		items[n] = object
	}
	return &itemwise.List{Items: items, ListMeta: metav1.ListMeta{
		ResourceVersion: accessor.GetResourceVersion(), Continue: accessor.GetContinue(),
		RemainingItemCount: accessor.GetRemainingItemCount(),
	}}, nil
}

// observed stores the objects of a shared informer. It reports each change to
// an observer while it stores the change. As client-go does, it also reports
// objects that have not changed.
type observed[T Object] struct {
	store    *store[T]
	observer dropin.Observer[T]
}

var _ contents[Object] = observed[Object]{}

// Put implements [contents].
func (o observed[T]) Put(item *tree.Item[T]) {
	s := o.store
	s.identity.learnKind(item.Object)
	o.observer.Lock()
	defer o.observer.Unlock()
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	c := s.changeTo(item)
	switch stored := s.storeChange(c); {
	case stored:
		o.observer.Put(oldOf(c), item.Object)
	case c.Old != nil && s.table.Get(item.Key) == nil:
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
	switch unknown := itemwise.RefusalOf(last) != nil; {
	case !unknown:
		o.observer.Deleted(last)
	case cached != nil:
		o.observer.Lost(cached.Object)
	}
}

// Replace implements [contents].
func (o observed[T]) Replace(rv string, items []*tree.Item[T], occasion versions.Occasion, done func()) {
	s := o.store
	tree.Sort(items)
	o.observer.Lock()
	defer o.observer.Unlock()
	s.writing.Lock()
	defer s.delivery.run()
	defer s.writing.Unlock()
	next, changes, refused := s.list(everywhere, items, occasion, "")
	told := s.removeReadable(everywhere, refused, occasion, "")
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
		for _, item := range next.root.AppendItems(nil) {
			old := item.Object
			if len(put) > 0 && put[0].New == item {
				old = oldOf(put[0])
				put = put[1:]
			}
			if !yield(old, item.Object) {
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

// direct lets the users of a shared informer write to its store, as they can
// write to a [cache.Store].
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
	if item := s.table.Get(key); item != nil {
		s.removeLocked(key, item.Object)
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

// follower stores the objects of a followed cache.
type follower[T Object] struct{ *reflectorStore[T] }

var _ follow.Store[Object] = follower[Object]{}

// Replace implements [follow.Store].
func (f follower[T]) Replace(objects []T, rv string) {
	list := make([]any, len(objects))
	for n, object := range objects {
		list[n] = object
	}
	_ = f.reflectorStore.Replace(list, rv) // every element is a T
}

// Put implements [follow.Store].
func (f follower[T]) Put(object T) {
	f.progress.markActive()
	item := itemOf(object)
	f.noteNamespace(item)
	f.target.Put(item)
	f.UpdateResourceVersion(object.GetResourceVersion())
}

// Heard implements [follow.Store].
func (f follower[T]) Heard() { f.progress.markActive() }

// Delete implements [follow.Store].
func (f follower[T]) Delete(object T, rv string) {
	f.progress.markActive()
	f.target.Remove(object)
	f.UpdateResourceVersion(rv)
}
