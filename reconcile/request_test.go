package reconcile_test

import (
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/reconcile"
)

// What a reconciler is given is the key and the object: it has no way to depend
// on what happened.
func TestAReconcilerCannotReadCauses(t *testing.T) {
	g := NewWithT(t)
	request := reflect.TypeFor[reconcile.Request[*corev1.ConfigMap]]()
	for field := range request.Fields() {
		g.Expect(field.Type).To(BeElementOf(
			reflect.TypeFor[reconcile.Key](), reflect.TypeFor[*corev1.ConfigMap](), reflect.TypeFor[bool]()), field.Name)
	}
	var methods []string
	for method := range request.Methods() {
		methods = append(methods, method.Name)
	}
	g.Expect(methods).To(Equal([]string{"Object", "WithObject"}))
	method, ok := reflect.TypeFor[reconcile.Reconciler[*corev1.ConfigMap]]().MethodByName("Reconcile")
	g.Expect(ok).To(BeTrue())
	g.Expect(method.Type.NumIn()).To(Equal(2), "a context and the request")
}
