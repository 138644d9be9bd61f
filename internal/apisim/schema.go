package apisim

import (
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Schema has the rules of a CustomResourceDefinition for its objects. Its methods are called with the server's lock
// held: they must not call the server.
type Schema interface {
	// Decode prunes and defaults an object that a caller sent, in place, and returns the paths of the fields that it does
	// not know, which the object loses.
	Decode(obj map[string]any) []string
	// Validate returns the errors of obj. old is the state before, or nil if obj is new. It must not modify them.
	Validate(obj, old map[string]any, subresource string) field.ErrorList
	// Types converts objects for server-side apply, by which lists are maps and which are sets.
	Types() managedfields.TypeConverter
	// OpenAPI is the schema as OpenAPI v3 has it; the caller owns it.
	OpenAPI() map[string]any
}
