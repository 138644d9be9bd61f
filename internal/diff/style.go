package diff

import (
	"reflect"
	"strings"
)

// A Style is a kind of patch.
type Style uint8

const (
	// JSON is a JSON merge patch, RFC 7386.
	JSON Style = iota
	// Strategic is a strategic merge patch: lists are merged by key.
	Strategic
)

// StyleOf returns the style that the server understands for obj: strategic for the
// types of Kubernetes itself, which servers know by their Go struct, JSON for
// everything else.
//
// The package of the Go type decides, not a scheme: programs register their
// custom types in client-go's scheme as well.
func StyleOf(obj any) Style {
	t := reflect.TypeOf(obj)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if strings.HasPrefix(t.PkgPath(), "k8s.io/api/") {
		return Strategic
	}
	return JSON
}
