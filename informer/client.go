package informer

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer/internal/follow"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
)

// Object is any API object: *corev1.Pod, *unstructured.Unstructured, the Go type of a
// custom resource and so on.
type Object interface {
	metav1.Object
	runtime.Object
}

// Client reads objects of one kind, in one namespace or in all. Generated clients such as
// clientset.CoreV1().Pods("") implement it, as do fake clients and those made with
// client-go's package gentype. It must be safe for concurrent use.
type Client[T Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// untypedClient is a Client whose Get knows subresources, as those of client-go's
// packages dynamic and metadata do.
type untypedClient[T Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Untyped returns c, a client of client-go's package dynamic or metadata, as a Client:
// for any kind without its Go type, or for metadata only:
//
//	informer.For(informer.Untyped(dynamicClient.Resource(gvr)), nil)
//	informer.For(informer.Untyped(metadataClient.Resource(gvr)), nil)
func Untyped[T Object, L runtime.Object](c untypedClient[T, L]) Client[T, L] {
	return untyped[T, L]{c}
}

type untyped[T Object, L runtime.Object] struct{ untypedClient[T, L] }

// Get reads the object itself.
func (u untyped[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	return u.untypedClient.Get(ctx, name, opts)
}

var _ wrapper = untyped[Object, runtime.Object]{}

func (u untyped[T, L]) unwrap() any { return u.untypedClient }

// Mistakes of callers.
var (
	errNoClient  = errors.New("informer.For: the client is nil: pass one such as clientset.CoreV1().Pods(\"\")")
	errNoClients = errors.New("informer.ForNamespaces: the function that returns clients is nil: " +
		"pass one such as clientset.CoreV1().Pods")
)

// source lists and watches the objects of one namespace, or of all: a
// Client without the type of its lists.
type source struct {
	// namespace is that of its list and watch: "" for all, or if it is not certain.
	namespace string
	// reach is which namespaces the client reads.
	reach reach
	// server is the URL of the API server; empty if the client does not tell.
	server string
	// scope is the one that the client says, as those of cluster.Kind do; else empty.
	scope meta.RESTScopeName
	// resource is the one that the client reads; empty as far as the client does not tell.
	resource schema.GroupVersionResource
	list     func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	watch    func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	// rest sends the requests of client-go's clients of built-in kinds; else nil.
	rest   rest.Interface
	client string // its Go type
	// fake says that the client is a fake and cannot stream lists.
	fake bool
	// itemwise reads object by object what the client reads; nil if that is not known.
	itemwise *itemwise
	// returnsShared says that the client may retain the objects that it returns, so they are
	// copied before they are modified.
	returnsShared bool
	// follows is a *follow.Client[T]; then there is nothing else.
	follows any
	// err says why the client is unusable; then nothing else is set.
	err error
}

// sourceOf returns the source of a client, with all that it shows of itself. It sends no
// request. A nil client is a source with an error, which Validate returns.
func sourceOf[T Object, L runtime.Object](c Client[T, L]) source {
	if bound.IsNil(unwrapped(c)) {
		return source{err: errNoClient}
	}
	if f, ok := any(c).(*follow.Client[T]); ok {
		return source{follows: f, err: f.Err}
	}
	reach := reachOf(c)
	namespace := ""
	if reach.certainty == certain {
		namespace = reach.namespace
	}
	resource := resourceOf(c)
	i := itemwiseOf[T](c, resource)
	of := i.reading(source{
		namespace: namespace,
		reach:     reach,
		server:    serverOf(c),
		itemwise:  i,
		resource:  resource,
		scope:     saidScope(c),
		list: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return c.List(ctx, opts)
		},
		watch:         c.Watch,
		rest:          generatedOf(c),
		client:        fmt.Sprintf("%T", c),
		fake:          isFake(c),
		returnsShared: returnsShared(c) && !i.isOn(),
	})
	list := of.list
	of.list = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		all, err := list(ctx, opts)
		return of.genuine(all, err)
	}
	return of
}

// genuine returns the answer to a request for a list, or an error if it cannot be the API
// server's.
func (of source) genuine(list runtime.Object, err error) (runtime.Object, error) {
	if err == nil && !of.fake {
		err = absent.List(list)
	}
	return list, err
}

// saidScope returns the scope of its kind that a client says, if it does.
func saidScope(client any) meta.RESTScopeName {
	if says, ok := unwrapped(client).(interface{ Scope() meta.RESTScopeName }); ok {
		return says.Scope()
	}
	return ""
}

// isFake reports whether client is a fake of client-go, generated or not. Only
// clientsets say so themselves; their typed clients show the fakes' record of
// actions, and all of them live in a package fake.
func isFake(client any) bool {
	client = unwrapped(client)
	switch c := client.(type) {
	case unstreamed:
		return c.IsWatchListSemanticsUnSupported()
	case recorder:
		return true
	}
	return path.Base(packageOf(client)) == "fake"
}

// example returns an object that shows the reflector the type of all.
func example[T Object]() any {
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem()).Interface()
	}
	return nil
}

// returnsShared reports whether the client may retain the objects that it returns:
// any may but client-go's own, which decode each separately.
func returnsShared(client any) bool {
	return isFake(client) || !strings.HasPrefix(packageOf(unwrapped(client)), "k8s.io/client-go/")
}
