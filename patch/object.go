package patch

import (
	"fmt"
	"reflect"

	"github.com/homeostat/homeostat/informer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// isNil reports whether v is nil or an interface that holds a nil pointer or function.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	rv := reflect.ValueOf(v)
	return (rv.Kind() == reflect.Pointer || rv.Kind() == reflect.Func) && rv.IsNil()
}

// kindOf is the object's kind as its TypeMeta has it, or else the name of its Go type.
func kindOf(obj informer.Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(obj).Elem().Name()
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// checkAnswer refuses the answer to a write of want that is about another object.
// What fakes leave empty is not compared.
func checkAnswer(want, got informer.Object) error {
	if isNil(got) {
		return fmt.Errorf("the client has returned neither an object nor an error")
	}
	differs := func(a, b string) bool { return a != "" && b != "" && a != b }
	if !differs(want.GetName(), got.GetName()) && !differs(want.GetNamespace(), got.GetNamespace()) &&
		!differs(string(want.GetUID()), string(got.GetUID())) {
		return nil
	}
	return fmt.Errorf("the client has written %q with UID %q instead of %q with UID %q: "+
		"it is of another namespace or kind", keyOf(got), got.GetUID(), keyOf(want), want.GetUID())
}
