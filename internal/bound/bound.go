// Package bound finds the client that reaches an object. A client of a
// different namespace would write to the object with the same name there.
package bound

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClientFor returns the client that reaches obj. It returns an error if the
// client shows that its namespace is not obj's. Generated, gentype and fake
// clients show their namespace.
func ClientFor[C any](clients func(namespace string) C, obj metav1.Object) (C, error) {
	namespace := obj.GetNamespace()
	c := clients(namespace)
	if IsNil(c) {
		return c, fmt.Errorf("there is no client for namespace %q: pass clientset.CoreV1().Pods for a namespaced kind, "+
			"patch.ClusterScoped(clientset.CoreV1().Nodes()) for a cluster-scoped one", namespace)
	}
	if bound, visible := NamespaceOf(c); visible && bound != namespace {
		return c, fmt.Errorf("the client is of namespace %q and would write %q instead: "+
			"pass clientset.CoreV1().Pods, for example", bound, types.NamespacedName{Namespace: bound, Name: obj.GetName()})
	}
	return c, nil
}

// Clients that show their namespace.
type (
	// generated is implemented by clients of package gentype and by types that
	// embed one.
	generated interface{ GetNamespace() string }
	// faked is implemented by fake clients.
	faked interface{ Namespace() string }
)

// NamespaceOf returns the namespace of a client. visible is false if the client
// does not show it.
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

// KeyOf returns the namespace and the name of obj.
func KeyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// IsNil reports whether value is nil or an interface that holds a nil pointer,
// function, map, slice or channel.
func IsNil(value any) bool {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Interface, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return v.IsNil()
	default:
		return false
	}
}
