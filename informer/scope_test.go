package informer_test

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		"any namespace but its": {
			"",
			informer.Options{FieldSelector: "spec.nodeName=n,metadata.namespace!=a"},
			types.NamespacedName{Namespace: "a", Name: "x"},
			false,
		},
		"any namespace but another": {
			"", informer.Options{FieldSelector: "metadata.namespace!=b"}, types.NamespacedName{Namespace: "a", Name: "x"}, true,
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
	web.Spec.NodeName, web.Spec.HostNetwork = "node-1", true
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
		"a boolean":               {"", "", "spec.hostNetwork=true", true},
		"a boolean, negated":      {"", "", "spec.hostNetwork!=true", false},
		"an old name":             {"", "", "spec.host=node-1", true},
	} {
		t.Run(name, func(t *testing.T) {
			in := informer.For(fake.NewClientset().CoreV1().Pods(c.namespace),
				&informer.Options{LabelSelector: c.labels, FieldSelector: c.fields})
			matches, known := in.Matches(web)
			NewWithT(t).Expect(known).To(BeTrue())
			NewWithT(t).Expect(matches).To(Equal(c.matches))
		})
	}
}

// Servers have values of their own, and some that no client knows.
func TestWhatDecidesNothingIsNotKnown(t *testing.T) {
	clients := fake.NewClientset()
	pods := func(selector string) func(metav1.Object) (bool, bool) {
		return informer.For(clients.CoreV1().Pods(""), &informer.Options{FieldSelector: selector}).Matches
	}
	jobs := informer.For(clients.BatchV1().Jobs(""), &informer.Options{FieldSelector: "status.successful=1"})
	done := &batchv1.Job{Status: batchv1.JobStatus{Succeeded: 1}}
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	for name, c := range map[string]struct {
		of             func(metav1.Object) (bool, bool)
		object         metav1.Object
		matches, known bool
	}{
		"a number of another name":          {jobs.Matches, done, true, true},
		"one that is not set":               {jobs.Matches, &batchv1.Job{}, false, true},
		"a field of a newer server":         {pods("spec.priority=1"), pod("d", "x"), false, false},
		"beside a field that decides":       {pods("spec.priority=1,spec.nodeName=n"), pod("d", "x"), false, true},
		"beside a field that does not":      {pods("spec.priority=1,spec.nodeName="), pod("d", "x"), false, false},
		"metadata only":                     {pods("spec.nodeName=n"), metadata, false, false},
		"metadata only, of another name":    {pods("spec.nodeName=n,metadata.name=y"), metadata, false, true},
		"an untyped object":                 {pods("spec.hostNetwork=false"), &unstructured.Unstructured{Object: map[string]any{}}, true, true},
		"an untyped object with a boolean":  {pods("spec.hostNetwork=false"), &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hostNetwork": true}}}, false, true},
		"a field that is never of one name": {pods("status.podIPs=10.0.0.1"), pod("d", "x"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			matches, known := c.of(c.object)
			g.Expect(known).To(Equal(c.known))
			g.Expect(matches).To(Equal(c.matches))
		})
	}
}
