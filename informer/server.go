package informer

import (
	"net/url"
	"reflect"
	"strings"

	"k8s.io/client-go/rest"
)

// serverOf returns the URL of the server that a client of client-go talks to:
// empty if it is a fake, or something else that does not tell.
//
// Only generated clients show what they send requests with. Those of packages
// dynamic and metadata, and older generated ones, keep it in a field "client", and
// it keeps the URL in a field "base". A client-go that calls them otherwise makes
// the server unknown, and a test fail.
func serverOf(client any) string {
	if u, ok := client.(interface{ below() any }); ok {
		client = u.below()
	}
	if c, ok := client.(interface{ GetClient() rest.Interface }); ok {
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
			v = ownField(v, "client")
		}
	}
	return ""
}

// ownField returns a field of v that is not one of an embedded struct.
func ownField(v reflect.Value, name string) reflect.Value {
	if f, ok := v.Type().FieldByName(name); ok && len(f.Index) == 1 {
		return v.Field(f.Index[0])
	}
	return reflect.Value{}
}
