package apisim

import (
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Schema has the rules of a CustomResourceDefinition for its objects. The
// server's lock is held during calls of its methods. So they must not call the
// server.
type Schema interface {
	// Decode prunes and defaults an object that a caller sent, in place. It
	// returns the paths of the unknown fields, which it removes.
	Decode(obj map[string]any) []string
	// Validate returns the errors of obj. old is the object before the write,
	// or nil if obj is new. Validate must not modify them.
	Validate(obj, old map[string]any, subresource string) field.ErrorList
	// Types returns the converter for server-side apply. It knows which lists are
	// maps and which are sets.
	Types() managedfields.TypeConverter
	// OpenAPI returns the schema in the form of OpenAPI v3. The caller owns it.
	OpenAPI() map[string]any
}
