package absent_test

import (
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
)

// A Service of Knative has the plural of a Service of core. The client shows
// which of the two it has asked about.
func TestOnlyTheResourceOfTheClientIsAbsent(t *testing.T) {
	knative := schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}
	core := corev1.SchemeGroupVersion.WithResource("services")
	for _, group := range []string{"", knative.Group} {
		page := absenttest.Page{ContentType: "application/json", Status: http.StatusNotFound, Body: fmt.Sprintf(
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"services \"web\" not found",`+
				`"reason":"NotFound","details":{"name":"web","group":%q,"kind":"services"},"code":404}`, group)}
		named := metav1.ObjectMeta{Namespace: "d", Name: "web"}
		service, bare := &corev1.Service{ObjectMeta: named}, &metav1.PartialObjectMetadata{ObjectMeta: named}
		typed := kubernetes.NewForConfigOrDie(page.Config()).CoreV1().Services("d")
		untyped, partial := dynamic.NewForConfigOrDie(page.Config()), metadata.NewForConfigOrDie(page.Config())
		g := NewWithT(t)
		_, err := typed.Get(t.Context(), "web", metav1.GetOptions{})
		g.Expect(absent.From(typed, err, service)).To(Equal(group == ""))
		g.Expect(absent.Read[*corev1.Service](typed, err, "web")).To(Equal(group == ""))
		g.Expect(absent.OfType[*corev1.Service](err, "web")).To(Equal(group == ""), "the type shows it, too")
		for _, resource := range []schema.GroupVersionResource{core, knative} {
			for _, client := range []any{untyped.Resource(resource).Namespace("d"), partial.Resource(resource).Namespace("d")} {
				g.Expect(absent.From(client, err, bare)).To(Equal(group == resource.Group), "%v", resource)
				g.Expect(absent.Read[*metav1.PartialObjectMetadata](client, err, "web")).To(Equal(group == resource.Group))
			}
		}
	}
}

// The answer has no namespace, so only the client shows which object it is
// about.
func TestWithoutItsNamespaceAnAnswerProvesNothing(t *testing.T) {
	g, page := NewWithT(t), absenttest.Page{ContentType: "application/json", Status: http.StatusNotFound, Body: own}
	resource := corev1.SchemeGroupVersion.WithResource("services")
	of := dynamic.NewForConfigOrDie(page.Config()).Resource(resource)
	_, err := of.Namespace("d").Get(t.Context(), "web", metav1.GetOptions{})
	in, out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}},
		&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for _, client := range []any{of.Namespace("d"), wrapped{of.Namespace("d")}} {
		g.Expect(absent.From(client, err, in)).To(BeTrue())
	}
	for _, client := range []any{of.Namespace("e"), of, wrapped{of}, struct{ namespace string }{"d"}, nil} {
		g.Expect(absent.From(client, err, in)).To(BeFalse(), "%T", client)
		g.Expect(absent.From(client, err, out)).To(BeTrue(), "a cluster-scoped object is in no other namespace")
	}
}

// wrapped is a client as programs wrap it.
type wrapped struct{ dynamic.ResourceInterface }
