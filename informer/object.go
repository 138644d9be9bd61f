package informer

import (
	"context"
	"flag"
	"fmt"
	"path"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer/internal/follow"
)

// An Object is any API object: *corev1.Pod, *unstructured.Unstructured, a
// custom resource's Go type, and so on.
type Object interface {
	metav1.Object
	runtime.Object
}

// A Client reads objects of one kind, in one namespace or in all. Generated
// clients such as clientset.CoreV1().Pods("") satisfy it, and so do fake ones
// and those made with client-go's gentype package.
type Client[T Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// A source lists and watches: what is left of a Client when its list type is
// of no interest any more.
type source struct {
	namespace string                      // "" for all
	server    string                      // its URL, if the client tells
	resource  schema.GroupVersionResource // empty as far as the client does not tell
	boundTo   string                      // the namespace of an untyped client
	list      func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	watch     func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	rest      rest.Interface // what a client of client-go for a built-in kind sends requests with; else nil
	client    string         // its Go type
	fake      bool           // known to be a fake, so that it cannot stream lists
	follows   any            // a *follow.Client[T]; then there is nothing else
	fault     error          // of what it was made from; then there is nothing else
	lends     bool           // it may retain the objects that it returns
}

func sourceOf[T Object, L runtime.Object](c Client[T, L]) source {
	if isNil(c) {
		return source{fault: errNoClient}
	}
	if f, ok := any(c).(*follow.Client[T]); ok {
		return source{follows: f, fault: f.Err}
	}
	resource, boundTo := resourceOf(c)
	return source{
		namespace: namespaceOf(c),
		server:    serverOf(c),
		resource:  resource,
		boundTo:   boundTo,
		list: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return c.List(ctx, opts)
		},
		watch:  c.Watch,
		rest:   generatedOf(c),
		client: fmt.Sprintf("%T", c),
		fake:   isFake(c),
		lends:  lends(c),
	}
}

// namespaceOf asks the client for the namespace that it is bound to. Generated
// clients and generated fakes have different names for it.
func namespaceOf(client any) string {
	switch c := client.(type) {
	case interface{ GetNamespace() string }:
		return c.GetNamespace()
	case interface{ Namespace() string }:
		return c.Namespace()
	}
	return ""
}

// isFake tells whether client is a fake of client-go, generated or not. Only
// clientsets say so themselves; their typed clients show the fakes' record of
// actions, and all of them live in a package fake.
func isFake(client any) bool {
	switch c := client.(type) {
	case interface{ IsWatchListSemanticsUnSupported() bool }:
		return c.IsWatchListSemanticsUnSupported()
	case interface{ ClearActions() }:
		return true
	}
	t := reflect.TypeOf(client)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && path.Base(t.PkgPath()) == "fake"
}

// lends reports whether the client may retain the objects that it returns: any
// may but client-go's own, which decode each anew. They are copied before they
// are written to.
func lends(client any) bool {
	if u, ok := client.(interface{ below() any }); ok {
		client = u.below()
	}
	t := reflect.TypeOf(client)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == nil || isFake(client) || !strings.HasPrefix(t.PkgPath(), "k8s.io/client-go/")
}

// inTest tells whether go test has built the program: its flags are there in
// every test binary, and nowhere else.
func inTest() bool { return flag.Lookup("test.v") != nil }
