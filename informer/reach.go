package informer

import (
	"reflect"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/bound"
)

// reach is which namespaces a client reads, as far as that is known. What is not
// known proves nothing: neither that an object is deleted, nor that it is not.
type reach struct {
	namespace string // "" for all, or if nothing is known
	certainty certainty
}

// certainty is how much of its reach a client shows.
type certainty uint8

const (
	// unknown is the reach of a client that shows nothing, such as one written by hand.
	unknown certainty = iota
	// embedded is the reach of a client that another type embeds. For example, that
	// type may add a selector: then objects are missing though they exist.
	embedded
	// certain is the reach of client-go's clients, or what the caller has stated.
	certain
)

// includes reports whether objects of namespace are known to be read.
func (r reach) includes(namespace string) bool {
	return r.certainty != unknown && (r.namespace == "" || r.namespace == namespace)
}

// reachOf returns the reach of a client of client-go, real or fake, also if another
// type embeds it.
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

// isUntyped reports whether client is of client-go's packages dynamic and metadata, or
// their fake.
func isUntyped(client any) bool {
	of := packageOf(client)
	return strings.HasPrefix(of, "k8s.io/client-go/dynamic") || strings.HasPrefix(of, "k8s.io/client-go/metadata")
}

// isOldGenerated reports whether v has the fields of clients that client-gen has
// generated before package gentype. Other types may have them, too.
func isOldGenerated(v reflect.Value) bool {
	client, ok := fieldOf(v, "client")
	return ok && client.Type() == reflect.TypeFor[rest.Interface]()
}
