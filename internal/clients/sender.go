package clients

import (
	"reflect"

	"k8s.io/client-go/rest"
)

// Sender describes how a client sends its requests.
type Sender struct {
	REST *rest.RESTClient
	// Namespace is the namespace of the requests, or "" for all namespaces.
	Namespace string
	// Versioned reports whether the base path of the REST client ends with the
	// group and the version. For example, it is false for the clients of
	// package dynamic, because they add both later.
	Versioned bool
}

// SenderOf returns how a client, or the client that it embeds, sends its
// requests. The REST of the result is nil if neither client shows how it sends
// requests.
func SenderOf(client any) Sender {
	client = Unwrapped(client)
	const deepest = 6 // types that embed one another
	for range deepest {
		if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			break
		}
		if c, ok := client.(requester); ok {
			restClient, _ := c.GetClient().(*rest.RESTClient)
			namespace, _ := NamespaceOf(client)
			return Sender{restClient, namespace, true}
		}
		switch PackageOf(client) {
		case "k8s.io/client-go/metadata", "k8s.io/client-go/dynamic":
			return Sender{REST: restClientIn(client), Namespace: namespaceField(client)}
		}
		client = embeddedIn(reflect.Indirect(reflect.ValueOf(client)))
	}
	return Sender{}
}

// restClientIn returns the REST client in the fields of a client of package
// metadata or dynamic, or nil.
func restClientIn(client any) *rest.RESTClient {
	const deepest = 6 // pointers, interfaces and structs around the REST client
	v := reflect.ValueOf(client)
	for range deepest {
		switch {
		case v.IsValid() && v.Type() == reflect.TypeFor[*rest.RESTClient]():
			return (*rest.RESTClient)(v.UnsafePointer())
		case v.Kind() == reflect.Pointer, v.Kind() == reflect.Interface:
			v = v.Elem()
		default:
			v, _ = FieldOf(v, "client")
		}
	}
	return nil
}

// namespaceField returns the namespace in the fields of a client of package
// metadata or dynamic. It is "" for all namespaces.
func namespaceField(client any) string {
	if field, ok := FieldOf(reflect.Indirect(reflect.ValueOf(client)), "namespace"); ok {
		return field.String()
	}
	return ""
}
