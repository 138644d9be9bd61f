package informer_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
)

func TestInScope(t *testing.T) {
	client := fake.NewClientset().CoreV1()
	for name, c := range map[string]struct {
		namespace string
		options   informer.Options
		key       types.NamespacedName
		expected  bool
	}{
		"all namespaces": {"", informer.Options{}, types.NamespacedName{Namespace: "a", Name: "x"}, true},
		"its namespace":  {"a", informer.Options{}, types.NamespacedName{Namespace: "a", Name: "x"}, true},
		"another":        {"a", informer.Options{}, types.NamespacedName{Namespace: "b", Name: "x"}, false},
		"labels are no matter of keys": {
			"", informer.Options{LabelSelector: "a=b"}, types.NamespacedName{Namespace: "a", Name: "x"}, true,
		},
		"its name": {
			"", informer.Options{FieldSelector: "metadata.name=x"}, types.NamespacedName{Namespace: "a", Name: "x"}, true,
		},
		"another name": {
			"", informer.Options{FieldSelector: "metadata.name=x"}, types.NamespacedName{Namespace: "a", Name: "y"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := informer.For(client.Pods(c.namespace), &c.options)
			NewWithT(t).Expect(in.InScope(c.key)).To(Equal(c.expected))
		})
	}
}
