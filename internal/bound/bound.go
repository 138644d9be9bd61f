// Package bound finds the client that reaches an object. A client of a
// different namespace would write to the object with the same name there.
package bound

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/clients"
)

// ClientFor returns the client for obj's namespace. It returns an error if
// clientOf returns no client, or a client that reveals that it is for another
// namespace. All clients of client-go reveal it, also where another type embeds
// them. A type that embeds a client of all namespaces is accepted, because its
// methods may choose the namespace.
func ClientFor[C any](clientOf func(namespace string) C, obj metav1.Object) (C, error) {
	namespace := obj.GetNamespace()
	c := clientOf(namespace)
	if IsNil(c) {
		return c, fmt.Errorf("there is no client for namespace %q: pass clientset.CoreV1().Pods for a namespaced kind, "+
			"patch.ClusterScoped(clientset.CoreV1().Nodes()) for a cluster-scoped one", namespace)
	}
	if reach := clients.ReachOf(c); wrong(reach, namespace) {
		return c, fmt.Errorf("the client is for namespace %q, and would write %q instead: pass clientset.CoreV1().Pods, "+
			"for example", reach.Namespace, types.NamespacedName{Namespace: reach.Namespace, Name: obj.GetName()})
	}
	return c, nil
}

// NamespaceOf returns the namespace of a client. visible is false if the client
// does not reveal its namespace.
func NamespaceOf(client any) (namespace string, visible bool) { return clients.NamespaceOf(client) }

// wrong reports whether a client is known to reach another namespace. It
// returns false for a type that embeds a client of all namespaces, because the
// methods of such a type may choose the namespace.
func wrong(r clients.Reach, namespace string) bool {
	return r.Certainty != clients.Unknown && r.Namespace != namespace &&
		(r.Certainty == clients.Certain || r.Namespace != "")
}

// KeyOf returns the namespace and the name of obj.
func KeyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// NameOf returns the namespace and the name of obj for messages, such as
// "default/a". For an object without a namespace it returns only the name.
func NameOf(obj metav1.Object) string { return strings.TrimPrefix(KeyOf(obj).String(), "/") }

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
