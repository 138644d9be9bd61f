package informer

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"reflect"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer/internal/dropin"
	"github.com/homeostat/homeostat/informer/internal/follow"
	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
)

// Object is an API object: for example, *corev1.Pod,
// *unstructured.Unstructured, or the Go type of a custom resource.
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

// Get reads an object without subresources.
func (u untyped[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	return u.untypedClient.Get(ctx, name, opts)
}

var _ wrapper = untyped[Object, runtime.Object]{}

func (u untyped[T, L]) unwrap() any { return u.untypedClient }

// The errors of wrong arguments.
var (
	errNoClient  = errors.New("informer.For: the client is nil: pass one such as clientset.CoreV1().Pods(\"\")")
	errNoClients = errors.New("informer.ForNamespaces: the function that returns clients is nil: " +
		"pass one such as clientset.CoreV1().Pods")
)

// source lists and watches the objects of one namespace or of all. It is a
// Client without its type parameters.
type source struct {
	// namespace is the namespace that is listed and watched. It is empty for all
	// namespaces, and if the client does not show its namespace with certainty.
	namespace string
	// reach describes which namespaces the client reads.
	reach reach
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
	// fake reports whether the client is a fake, which cannot stream lists.
	fake bool
	// itemwise can read the client's lists and watches object by object. It is nil
	// if this is not possible.
	itemwise *itemwise
	// returnsShared reports whether the client may retain the objects that it
	// returns. They are copied before they are modified.
	returnsShared bool
	// follows is a *follow.Client[T] or nil. If it is set, the fields above are
	// not used.
	follows any
	// dropin is a *dropin.Client[T] or nil. If it is set, sends reports whether
	// the last call has sent a request, and unstreamed reports whether its
	// ListerWatcher cannot stream lists.
	dropin     any
	sends      *atomic.Bool
	unstreamed bool
	// err is why the client cannot be used. If it is set, the other fields are
	// not.
	err error
}

// sourceOf returns the source of a client. It sends no request. The source of a
// nil client has an error, which Validate returns.
func sourceOf[T Object, L runtime.Object](c Client[T, L]) source {
	if bound.IsNil(unwrapped(c)) {
		return source{err: errNoClient}
	}
	if f, ok := any(c).(*follow.Client[T]); ok {
		return source{follows: f, err: f.Err}
	}
	if d, ok := any(c).(*dropin.Client[T]); ok {
		return sourceOfListerWatcher(d)
	}
	reach := reachOf(c)
	namespace := ""
	if reach.certainty == certain {
		namespace = reach.namespace
	}
	resource := resourceOf(c)
	i := itemwiseOf[T](c, resource)
	made := i.reading(source{
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
	list := made.list
	made.list = func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		all, err := list(ctx, opts)
		return made.genuine(all, err)
	}
	return made
}

// genuine returns a list, or an error if the list cannot be the API server's.
func (s source) genuine(list runtime.Object, err error) (runtime.Object, error) {
	if err == nil && !s.isSimulated() {
		err = absent.List(list)
	}
	return list, err
}

// saidScope returns the scope that a client declares for its kind, or the empty
// string.
func saidScope(client any) meta.RESTScopeName {
	if says, ok := unwrapped(client).(interface{ Scope() meta.RESTScopeName }); ok {
		return says.Scope()
	}
	return ""
}

// isFake reports whether client is a fake of client-go. Fake clientsets declare
// that they are fakes. Their typed clients record actions. All other fakes are
// in a package named fake.
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

// example returns an empty object, from which the reflector learns the type.
func example[T Object]() any {
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem()).Interface()
	}
	return nil
}

// returnsShared reports whether the client may retain the objects that it
// returns. Only client-go's own clients are known not to, because they decode
// each object separately.
func returnsShared(client any) bool {
	return isFake(client) || !strings.HasPrefix(packageOf(unwrapped(client)), "k8s.io/client-go/")
}

// Clients of client-go do not show what they read. Only the functions below read
// their unexported fields. They rely on these properties of client-go v0.37:
//
//   - A generated client embeds a struct with a field "resource", and so does
//     its fake. The field is a plural name if there is a method GetClient, and
//     otherwise a schema.GroupVersionResource.
//   - The clients of packages dynamic and metadata, and their fakes, have the
//     fields "resource" and "namespace". Clients that were generated before
//     package gentype have a field "ns" instead of "namespace".
//   - Clients have a field "client" that leads to a rest.RESTClient, and its
//     field "base" is the URL of the server.
//
// If a property does not hold, the resource is derived from the Go type of a
// built-in kind or is unknown, the server is unknown, and tests fail.

// resourceOf returns the resource that a client of client-go reads. The client
// may be a fake, or may be embedded in another type. Unknown parts are empty.
func resourceOf(client any) (resource schema.GroupVersionResource) {
	client = unwrapped(client)
	const deepest = 6 // types that embed one another
	for range deepest {
		v := reflect.Indirect(reflect.ValueOf(client))
		if field, ok := fieldOf(v, "resource"); ok {
			return readResource(client, field)
		}
		if client = embeddedIn(v); client == nil {
			break
		}
	}
	return resource
}

// readResource returns the resource that a client's field contains.
func readResource(client any, field reflect.Value) (resource schema.GroupVersionResource) {
	if field.Type() == reflect.TypeFor[schema.GroupVersionResource]() {
		part := func(name string) string { return field.FieldByName(name).String() }
		return schema.GroupVersionResource{Group: part("Group"), Version: part("Version"), Resource: part("Resource")}
	}
	if c, ok := client.(requester); ok && field.Kind() == reflect.String {
		return c.GetClient().APIVersion().WithResource(field.String())
	}
	return resource
}

// embeddedIn returns the first interface that a struct embeds, or nil.
func embeddedIn(v reflect.Value) any {
	if v.Kind() != reflect.Struct {
		return nil
	}
	for n := range v.NumField() {
		if f := v.Type().Field(n); f.Anonymous && f.IsExported() && f.Type.Kind() == reflect.Interface {
			return v.Field(n).Interface()
		}
	}
	return nil
}

// fieldOf returns a field of v or of a struct embedded in it.
func fieldOf(v reflect.Value, name string) (reflect.Value, bool) {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	f, ok := v.Type().FieldByName(name)
	if !ok {
		return reflect.Value{}, false
	}
	value, err := v.FieldByIndexErr(f.Index)
	return value, err == nil
}

// serverOf returns the URL of the server of a client-go client. It is empty for
// fakes and for other clients.
func serverOf(client any) string {
	client = unwrapped(client)
	if c, ok := client.(requester); ok {
		client = c.GetClient()
	}
	const deepest = 10 // pointers, interfaces and structs around the URL
	v := reflect.ValueOf(client)
	for range deepest {
		switch {
		case v.Kind() == reflect.Pointer, v.Kind() == reflect.Interface:
			v = v.Elem()
		case v.Kind() != reflect.Struct: // or nil
			return ""
		case v.Type() == reflect.TypeFor[url.URL]():
			part := func(field string) string { return v.FieldByName(field).String() }
			return part("Scheme") + "://" + part("Host") + strings.TrimSuffix(part("Path"), "/")
		case v.Type() == reflect.TypeFor[rest.RESTClient]():
			v = v.FieldByName("base")
		default:
			v, _ = fieldOf(v, "client")
		}
	}
	return ""
}

// restClientIn returns the REST client in the fields of a client of package
// metadata, or nil.
func restClientIn(client any) *rest.RESTClient {
	const deepest = 6 // pointers, interfaces and structs around it
	v := reflect.ValueOf(client)
	for range deepest {
		switch {
		case v.IsValid() && v.Type() == reflect.TypeFor[*rest.RESTClient]():
			return (*rest.RESTClient)(v.UnsafePointer())
		case v.Kind() == reflect.Pointer, v.Kind() == reflect.Interface:
			v = v.Elem()
		default:
			v, _ = fieldOf(v, "client")
		}
	}
	return nil
}

// namespaceField returns the namespace in the fields of a client of package
// metadata.
func namespaceField(client any) string {
	if field, ok := fieldOf(reflect.Indirect(reflect.ValueOf(client)), "namespace"); ok {
		return field.String()
	}
	return ""
}

// unwrapped returns the argument of Untyped, or a client that is not the result
// of Untyped unchanged.
func unwrapped(client any) any {
	if w, ok := client.(wrapper); ok {
		return w.unwrap()
	}
	return client
}

// Optional methods of clients.
type (
	// wrapper is the client that Untyped returns.
	wrapper interface{ unwrap() any }
	// requester sends its requests with a REST client, as client-go's generated
	// clients do.
	requester interface{ GetClient() rest.Interface }
	// unstreamed reports whether it cannot stream lists, as fake clientsets do.
	unstreamed interface{ IsWatchListSemanticsUnSupported() bool }
	// recorder is a fake of client-go that records its calls.
	recorder interface{ ClearActions() }
)

// generated is the path of the typed clients for the built-in kinds. A type of
// another package that embeds such a client may behave differently.
const generated = "k8s.io/client-go/kubernetes/typed/"

// generatedOf returns the REST client of a client-go client for a built-in
// kind. It returns nil for other clients.
func generatedOf(client any) rest.Interface {
	c, ok := client.(requester)
	if !ok || reflect.TypeOf(client).Kind() != reflect.Pointer || !strings.HasPrefix(packageOf(client), generated) {
		return nil
	}
	return c.GetClient()
}

// packageOf returns the import path of the type of x, or of the type that x
// points to.
func packageOf(x any) string {
	t := reflect.TypeOf(x)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return ""
	}
	return t.PkgPath()
}

// reach describes which namespaces a client reads, as far as this is known. An
// unknown reach proves neither that an object is deleted nor that it exists.
type reach struct {
	namespace string // empty for all namespaces, and if the reach is unknown
	certainty certainty
}

// certainty is how much of its reach a client shows.
type certainty uint8

const (
	// unknown is the reach of a client that does not show it, such as a client
	// written by hand.
	unknown certainty = iota
	// embedded is the reach of a client that is embedded in another type. That
	// type may add a selector, for example. So objects can be missing from it
	// although they exist.
	embedded
	// certain is the reach of client-go's own clients, or a reach that the
	// caller has stated.
	certain
)

// includes reports whether objects of namespace are known to be read.
func (r reach) includes(namespace string) bool {
	return r.certainty != unknown && (r.namespace == "" || r.namespace == namespace)
}

// reachOf returns the reach of a client of client-go. The client may be a fake,
// or may be embedded in another type.
func reachOf(client any) reach {
	client = unwrapped(client)
	how := certain
	const deepest = 6 // types that embed one another
	for range deepest {
		if namespace, visible := bound.NamespaceOf(client); visible {
			return reach{namespace, how}
		}
		v := reflect.Indirect(reflect.ValueOf(client))
		if field, ok := fieldOf(v, "namespace"); ok && isUntyped(client) && field.Kind() == reflect.String {
			return reach{field.String(), how}
		}
		if field, ok := fieldOf(v, "ns"); ok && isOldGenerated(v) && field.Kind() == reflect.String {
			return reach{field.String(), embedded}
		}
		if client = embeddedIn(v); client == nil {
			break
		}
		how = embedded
	}
	return reach{}
}

// isUntyped reports whether client is from client-go's packages dynamic or
// metadata, or is one of their fakes.
func isUntyped(client any) bool {
	path := packageOf(client)
	return strings.HasPrefix(path, "k8s.io/client-go/dynamic") || strings.HasPrefix(path, "k8s.io/client-go/metadata")
}

// isOldGenerated reports whether v has the fields of clients that client-gen
// generated before there was a package gentype. Other types may have such
// fields, too.
func isOldGenerated(v reflect.Value) bool {
	client, ok := fieldOf(v, "client")
	return ok && client.Type() == reflect.TypeFor[rest.Interface]()
}
