// Package clients finds out what a client and a Go type show about the objects
// that they read: the kind, the resource, the namespaces, the server, and
// whether a fake answers. It sends no request. It never guesses, but reports
// that a fact is unknown.
//
// Clients of client-go do not say what they read, so this package, and no
// other, reads their unexported fields. It assumes of client-go v0.37:
//
//   - What a generated client embeds, and its fake, have a field "resource": a
//     plural name beside a method GetClient, or a schema.GroupVersionResource.
//     The clients of packages dynamic and metadata and their fakes have one,
//     too, and a "namespace". Clients that were generated before package
//     gentype have a field "ns" instead.
//   - Clients have a field "client" that leads to a rest.RESTClient, and that
//     has the URL of the server in a field "base".
//
// If a later client-go differs, tests fail. The resource is then derived from
// the Go type of a built-in kind, or unknown, and the server is unknown.
package clients

import (
	"net/url"
	"path"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// ScopeOf returns the scope that a client declares for its kind, or "" if the
// client does not declare a scope. For example, clients of cluster.Kind declare
// it.
func ScopeOf(client any) meta.RESTScopeName {
	if says, ok := Unwrapped(client).(interface{ Scope() meta.RESTScopeName }); ok {
		return says.Scope()
	}
	return ""
}

// KindOf returns the kind of a client's objects, or "" if the client does not
// show it. Clients of cluster.Kind declare it, and the Go types of built-in
// kinds show it.
func KindOf[T any](client any) string {
	if says, ok := Unwrapped(client).(interface{ Kind() string }); ok {
		return says.Kind()
	}
	builtIn, _, _ := BuiltIn(reflect.TypeFor[T]())
	return builtIn.Kind
}

// IsFake reports whether client is a fake of client-go. Fake clientsets declare
// that they are fakes. Their typed clients record actions. All other fakes are
// in a package named fake.
func IsFake(client any) bool {
	client = Unwrapped(client)
	switch c := client.(type) {
	case unstreamed:
		return c.IsWatchListSemanticsUnSupported()
	case recorder:
		return true
	}
	return path.Base(PackageOf(client)) == "fake"
}

// ReturnsShared reports whether the client may retain the objects that it
// returns. Only client-go's own clients are known not to retain them, because
// they decode each object separately.
func ReturnsShared(client any) bool {
	return IsFake(client) || !strings.HasPrefix(PackageOf(Unwrapped(client)), "k8s.io/client-go/")
}

// ResourceOf returns the resource that a client of client-go reads. The client
// may be a fake, or may be embedded in another type. Unknown parts are empty.
func ResourceOf(client any) (resource schema.GroupVersionResource) {
	client = Unwrapped(client)
	const deepest = 6 // types that embed one another
	for range deepest {
		v := reflect.Indirect(reflect.ValueOf(client))
		if field, ok := FieldOf(v, "resource"); ok {
			return readResource(client, field)
		}
		if client = embeddedIn(v); client == nil {
			break
		}
	}
	return resource
}

// readResource returns the resource that a client's field contains, or the zero
// value if the field contains no resource. The field may be a
// GroupVersionResource, or the name of the resource in a client with a REST
// client.
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

// embeddedIn returns the first exported interface that a struct embeds, or nil.
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

// FieldOf returns the field with this name of v, or of a struct embedded in v.
// It returns false if there is no such field, if it is behind a nil pointer, or
// if v is not a struct.
func FieldOf(v reflect.Value, name string) (reflect.Value, bool) {
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

// ServerOf returns the URL of the server to which a client of client-go sends
// its requests. The client may be embedded in another type. The URL has the form
// in which it can be compared: without a default port, and with a host in lower
// case. The URL is empty for fakes, and for clients that do not show their REST
// client.
func ServerOf(client any) string {
	client = Unwrapped(client)
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
			scheme, host := part("Scheme"), strings.ToLower(part("Host"))
			if port, ok := map[string]string{"https": ":443", "http": ":80"}[scheme]; ok {
				host = strings.TrimSuffix(host, port)
			}
			return scheme + "://" + host + strings.TrimSuffix(part("Path"), "/")
		case v.Type() == reflect.TypeFor[rest.RESTClient]():
			v = v.FieldByName("base")
		default:
			v, _ = FieldOf(v, "client")
		}
	}
	return ""
}

// Wrapper is a client that wraps another client. For example, informer.Untyped
// returns such a client. Only packages of this module can implement it.
type Wrapper interface{ Wrapped() Inner }

// Inner contains the client that a Wrapper wraps.
type Inner struct{ Client any }

// Unwrapped returns the client that a [Wrapper] wraps, and any other client
// unchanged.
func Unwrapped(client any) any {
	if w, ok := client.(Wrapper); ok {
		return w.Wrapped().Client
	}
	return client
}

// Optional methods of clients.
type (
	// requester sends its requests with a REST client, as client-go's generated
	// clients do.
	requester interface{ GetClient() rest.Interface }
	// generated is implemented by clients of package gentype and by types that
	// embed one.
	generated interface{ GetNamespace() string }
	// faked is implemented by fake clients.
	faked interface{ Namespace() string }
	// unstreamed is a client that reports whether it cannot stream lists, as
	// fake clientsets do.
	unstreamed interface{ IsWatchListSemanticsUnSupported() bool }
	// recorder is a fake of client-go that records its calls.
	recorder interface{ ClearActions() }
)

// generatedPath is the path of the typed clients for the built-in kinds. A type
// of another package that embeds such a client may behave differently.
const generatedPath = "k8s.io/client-go/kubernetes/typed/"

// GeneratedOf returns the REST client of a client-go client for a built-in
// kind. It returns nil for other clients.
func GeneratedOf(client any) rest.Interface {
	c, ok := client.(requester)
	if !ok || reflect.TypeOf(client).Kind() != reflect.Pointer || !strings.HasPrefix(PackageOf(client), generatedPath) {
		return nil
	}
	return c.GetClient()
}

// PackageOf returns the import path of the type of x, or of the type that x
// points to. It returns "" if there is no such path, for example if x is nil.
func PackageOf(x any) string {
	t := reflect.TypeOf(x)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return ""
	}
	return t.PkgPath()
}

// Reach describes which namespaces a client reads, as far as this is known. An
// unknown reach proves neither that an object is deleted nor that it exists.
type Reach struct {
	Namespace string // empty for all namespaces, and if the reach is unknown
	Certainty Certainty
}

// Certainty says how much is known about the namespaces that a client reads.
type Certainty uint8

const (
	// Unknown means that the client does not show which namespaces it reads.
	// For example, it may be written by hand.
	Unknown Certainty = iota
	// Embedded means that the client is embedded in another type, or looks as
	// if an old client-gen had generated it. Such a type may add a selector,
	// for example, and may then not return all objects of the namespace.
	Embedded
	// Certain means that the client itself says which namespaces it reads, as
	// the clients of client-go and of cluster.Kind do, or that the caller has
	// stated it.
	Certain
)

// Includes reports whether objects of namespace are known to be read.
func (r Reach) Includes(namespace string) bool {
	return r.Certainty != Unknown && (r.Namespace == "" || r.Namespace == namespace)
}

// NamespaceOf returns the namespace that a client says it is bound to. visible
// is false if the client does not say it. [ReachOf] knows more clients.
func NamespaceOf(client any) (namespace string, visible bool) {
	switch c := client.(type) {
	case generated:
		return c.GetNamespace(), true
	case faked:
		return c.Namespace(), true
	default:
		return "", false
	}
}

// ReachOf returns the reach of a client of client-go. The client may be a fake,
// or may be embedded in another type.
func ReachOf(client any) Reach {
	client = Unwrapped(client)
	certainty := Certain
	const deepest = 6 // types that embed one another
	for range deepest {
		if namespace, visible := NamespaceOf(client); visible {
			return Reach{namespace, certainty}
		}
		v := reflect.Indirect(reflect.ValueOf(client))
		if field, ok := FieldOf(v, "namespace"); ok && isUntyped(client) && field.Kind() == reflect.String {
			return Reach{field.String(), certainty}
		}
		if field, ok := FieldOf(v, "ns"); ok && isOldGenerated(v) && field.Kind() == reflect.String {
			return Reach{field.String(), Embedded}
		}
		if client = embeddedIn(v); client == nil {
			break
		}
		certainty = Embedded
	}
	return Reach{}
}

// isUntyped reports whether client is from client-go's packages dynamic or
// metadata, or is one of their fakes.
func isUntyped(client any) bool {
	path := PackageOf(client)
	return strings.HasPrefix(path, "k8s.io/client-go/dynamic") || strings.HasPrefix(path, "k8s.io/client-go/metadata")
}

// isOldGenerated reports whether v has the fields of clients that client-gen
// generated before there was a package gentype. Other types may have such
// fields, too.
func isOldGenerated(v reflect.Value) bool {
	client, ok := FieldOf(v, "client")
	return ok && client.Type() == reflect.TypeFor[rest.Interface]()
}
