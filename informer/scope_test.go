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

func TestMatchesComparesWithTheScope(t *testing.T) {
	web := pod("d", "web-1")
	web.Labels = map[string]string{"app": "web"}
	web.Spec.NodeName = "node-1"
	for name, c := range map[string]struct {
		namespace, labels, fields string
		matches                   bool
	}{
		"everything":              {"", "", "", true},
		"the client's namespace":  {"d", "", "", true},
		"a client of another":     {"e", "", "", false},
		"the label":               {"", "app=web", "", true},
		"another label":           {"", "app!=web", "", false},
		"the name":                {"", "", "metadata.name=web-1", true},
		"another namespace":       {"", "", "metadata.namespace=e", false},
		"the node":                {"", "", "spec.nodeName=node-1,metadata.namespace=d", true},
		"another node":            {"", "", "spec.nodeName=node-2", false},
		"a field that is not set": {"", "", "status.phase=", true},
	} {
		t.Run(name, func(t *testing.T) {
			in := informer.For(fake.NewClientset().CoreV1().Pods(c.namespace),
				&informer.Options{LabelSelector: c.labels, FieldSelector: c.fields})
			NewWithT(t).Expect(in.Matches(web)).To(Equal(c.matches))
		})
	}
}
