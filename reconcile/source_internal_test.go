package reconcile

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
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

// Labels are known of most answers, so nothing else is decoded for them.
func TestWhetherAnAnswerIsInScopeFollowsFromItsLabels(t *testing.T) {
	g := NewWithT(t)
	s := typed[*corev1.Secret]{informer.For(fake.NewClientset().CoreV1().Secrets("d"), &informer.Options{LabelSelector: "app=web"})}
	const start = `{"apiVersion":"v1","kind":"Secret","type":["of a later API"],"metadata":{"namespace":"d","name":"a","labels":{"app":`
	for body, want := range map[string]bool{start + `"web"}}}`: true, start + `"db"}}}`: false} {
		object, err := answer.Read("application/json", []byte(body))
		g.Expect(err).NotTo(HaveOccurred())
		inScope, known := s.covers(&write{object: object})
		g.Expect([]bool{inScope, known}).To(Equal([]bool{want, true}), body)
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

// The Kind of a shared informer is all that is known of it.
func TestWritesToTheResourceOfAWrappedInformersKindMatch(t *testing.T) {
	g := NewWithT(t)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	s := typed[*corev1.ConfigMap]{clientgo.Wrap[*corev1.ConfigMap](factory.Core().V1().ConfigMaps().Informer(), nil)}
	for resource, want := range map[string]bool{"configmaps": true, "secrets": false} {
		w := &write{object: written("1", ""), resource: schema.GroupResource{Resource: resource}}
		g.Expect(s.matches(w)).To(Equal(want), resource)
	}
}

// A request for many objects may have changed some in scope, as far as its
// namespace says.
func TestAWriteMatchesByItsScope(t *testing.T) {
	g := NewWithT(t)
	client, err := kubernetes.NewForConfig(&rest.Config{})
	g.Expect(err).NotTo(HaveOccurred())
	s := typed[*corev1.Secret]{informer.For(client.CoreV1().Secrets("d"), nil)}
	for key, want := range map[Key]bool{
		{Namespace: "d", Name: "a"}: true, {Namespace: "e", Name: "a"}: false, {Name: "a"}: false,
		{Namespace: "d"}: true, {Namespace: "e"}: false, {}: true,
	} {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		w := &write{object: object, resource: schema.GroupResource{Resource: "secrets"}}
		g.Expect(s.matches(w)).To(Equal(want), "%v", key)
	}
}

func TestATypedObjectIsOfAnUntypedInformersKindByItsGoType(t *testing.T) {
	g := NewWithT(t)
	client, err := dynamic.NewForConfig(&rest.Config{})
	g.Expect(err).NotTo(HaveOccurred())
	resource := corev1.SchemeGroupVersion.WithResource("secrets")
	secret, pod := metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	s := typed[*unstructured.Unstructured]{
		informer.For(informer.Untyped(client.Resource(resource)), &informer.Options{Kind: "Secret"}),
	}
	for name, c := range map[string]struct {
		object metav1.Object
		want   bool
	}{
		"typed":             {&corev1.Secret{}, true},
		"of another type":   {&corev1.Pod{}, false},
		"untyped":           {&unstructured.Unstructured{}, true},
		"of another kind":   {&unstructured.Unstructured{Object: map[string]any{"kind": "Pod"}}, false},
		"metadata":          {&metav1.PartialObjectMetadata{TypeMeta: secret}, true},
		"metadata of a Pod": {&metav1.PartialObjectMetadata{TypeMeta: pod}, false},
	} {
		g.Expect(s.isOfKind(c.object)).To(Equal(c.want), name)
	}
}
