package informer

import (
	"net/url"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Clients of client-go do not say what they read. This file, and no other, reads
// their unexported fields. It assumes of client-go v0.37:
//
//   - What a generated client embeds, and its fake, have a field "resource": a plural
//     name beside a method GetClient, or a schema.GroupVersionResource. So have the
//     clients of packages dynamic and metadata and their fakes, and a "namespace".
//     Clients that were generated before package gentype have a field "ns" instead.
//   - Clients have a field "client" that leads to a rest.RESTClient, and that has the
//     URL of the server in a field "base".
//
// Otherwise the resource is derived from the Go type of a built-in kind, or
// unknown, and so is the server; tests fail then.

// resourceOf returns the resource that a client of client-go, real or fake, reads,
// also if another type embeds the client: empty as far as it is unknown.
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

// readResource returns the resource in a field of a client.
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

// embeddedIn returns the first interface that a struct embeds, nil if there is
// none.
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

// serverOf returns the URL of the server that a client of client-go sends requests
// to: empty for fakes and other clients.
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

// restClientIn returns the REST client in the fields of a client of package metadata,
// nil if there is none.
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

// namespaceField returns the namespace in a field of a client of package metadata.
func namespaceField(client any) string {
	if field, ok := fieldOf(reflect.Indirect(reflect.ValueOf(client)), "namespace"); ok {
		return field.String()
	}
	return ""
}

// unwrapped returns the argument of Untyped, and any other client unchanged.
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

// generated is where the typed clients of the built-in kinds are. A type of another
// package that embeds one may do more than they do.
const generated = "k8s.io/client-go/kubernetes/typed/"

// generatedOf returns the REST client of a client-go client for a built-in kind,
// and nil for other clients.
func generatedOf(client any) rest.Interface {
	c, ok := client.(requester)
	if !ok || reflect.TypeOf(client).Kind() != reflect.Pointer || !strings.HasPrefix(packageOf(client), generated) {
		return nil
	}
	return c.GetClient()
}

// packageOf returns the import path of the type of x, or of the type that x points to.
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
