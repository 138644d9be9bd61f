package informer

import (
	"errors"
	"fmt"
	"reflect"
)

// Mistakes of callers.
var (
	errNoClient  = errors.New("informer.For: the client is nil: pass one such as clientset.CoreV1().Pods(\"\")")
	errNoClients = errors.New("informer.ForNamespaces: the function that returns clients is nil: " +
		"pass one such as clientset.CoreV1().Pods")
)

// errNilClientOf is what a function of ForNamespaces that returns no client leads to.
func errNilClientOf(namespace string) error {
	return fmt.Errorf("informer.ForNamespaces: the client of namespace %q is nil", namespace)
}

// isNil reports whether x, or what Untyped was called with, is nil or a nil pointer.
func isNil(x any) bool {
	if u, ok := x.(interface{ below() any }); ok {
		x = u.below()
	}
	switch v := reflect.ValueOf(x); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Interface, reflect.Map, reflect.Slice, reflect.Chan:
		return v.IsNil()
	default:
		return false
	}
}
