package reconcile

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/answer"
)

// If it counted as out of scope, the key would not wait for its own write.
func TestWhetherAnAnswerThatCannotBeDecodedIsInScopeIsUnknown(t *testing.T) {
	g := NewWithT(t)
	in := informer.For(fake.NewClientset().CoreV1().Secrets("d"), &informer.Options{FieldSelector: "type=Opaque"})
	s := typed[*corev1.Secret]{in}
	covers := func(body string) (bool, bool) {
		object, err := answer.Read("application/json", []byte(body))
		g.Expect(err).NotTo(HaveOccurred())
		return s.covers(&write{object: object})
	}
	inScope, known := s.covers(&write{object: &answer.Object{Unlabelled: true}})
	g.Expect([]bool{inScope, known}).To(Equal([]bool{false, false}), "an answer about a subresource")
	secret := func(of corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"}, Type: of}
	}
	inScope, known = s.covers(&write{object: secret(corev1.SecretTypeTLS)})
	g.Expect([]bool{inScope, known}).To(Equal([]bool{false, true}), "an object that was reported")
	inScope, known = s.covers(&write{object: secret(corev1.SecretTypeOpaque)})
	g.Expect([]bool{inScope, known}).To(Equal([]bool{true, true}), "one in scope")
	const start = `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"d","name":"a"},"type":`
	for body, want := range map[string][]bool{
		start + `"Opaque"}`:            {true, true},
		start + `"kubernetes.io/tls"}`: {false, true},
		start + `["of a later API"]}`:  {false, false},
	} {
		inScope, known := covers(body)
		g.Expect([]bool{inScope, known}).To(Equal(want), body)
	}
}

func TestAnUntypedObjectIsOfAnInformersKindIfItsGroupIsTheSame(t *testing.T) {
	g := NewWithT(t)
	client, err := kubernetes.NewForConfig(&rest.Config{})
	g.Expect(err).NotTo(HaveOccurred())
	s := typed[*corev1.Secret]{informer.For(client.CoreV1().Secrets("d"), nil)}
	for version, want := range map[string]bool{"v1": true, "example.com/v1": false} {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": "Secret"}}
		g.Expect(s.isOfKind(object)).To(Equal(want), version)
	}
}
