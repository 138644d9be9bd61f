// Package bound finds the client that reaches an object. A client of a different
// namespace would write to an object of the same name there.
package bound

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClientFor returns the client that reaches obj. A client that shows its
// namespace, as generated, gentype and fake ones do, must be of that of obj.
func ClientFor[C any](of func(namespace string) C, obj metav1.Object) (C, error) {
	namespace := obj.GetNamespace()
	c := of(namespace)
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
	// generated is a client of package gentype, or one that embeds it.
	generated interface{ GetNamespace() string }
	// faked is the fake of one.
	faked interface{ Namespace() string }
)

// NamespaceOf returns the namespace of a client that shows it.
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

// IsNil reports whether value is nil or an interface that holds a nil pointer, function, map,
// slice or channel.
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
