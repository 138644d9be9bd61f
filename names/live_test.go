package names_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
)

// onlyItsOwnAnswer asks for an object through proxies and other servers that
// answer 404.
func onlyItsOwnAnswer(t *testing.T) {
	for _, page := range absenttest.Pages(corev1.Resource("services"), "web") {
		t.Run(page.Name, func(t *testing.T) {
			g := NewWithT(t)
			typed, untyped := kubernetes.NewForConfigOrDie(page.Config()), dynamic.NewForConfigOrDie(page.Config())
			_, ok, err := names.Live(t.Context(), typed.CoreV1().Services("d"), "web")
			g.Expect(err).To(HaveOccurred())
			g.Expect(ok).To(BeFalse())
			g.Expect(names.IsNotFound(err, corev1.Resource("services"), "web")).To(BeFalse())
			services := patch.Dynamic(untyped.Resource(corev1.SchemeGroupVersion.WithResource("services")))
			_, _, err = names.Live[*unstructured.Unstructured](t.Context(), services("d"), "web")
			g.Expect(err).To(HaveOccurred())
		})
	}
	elsewhere := absenttest.Page{
		Name: "an object of another namespace", ContentType: "application/json", Status: http.StatusOK,
		Body: `{"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"other","uid":"u","resourceVersion":"3"}}`,
	}
	for _, page := range append(absenttest.Successes(), elsewhere) {
		g, typed := NewWithT(t), kubernetes.NewForConfigOrDie(page.Config())
		_, ok, err := names.Live(t.Context(), typed.CoreV1().Services("d"), "web")
		g.Expect(err).To(HaveOccurred(), page.Name)
		g.Expect(ok).To(BeFalse(), page.Name)
	}
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	client := kubernetes.NewForConfigOrDie(sim.Config("controller"))
	_, ok, err := names.Live(t.Context(), client.AppsV1().Deployments("d"), "web")
	g.Expect(ok).To(BeFalse())
	g.Expect(err).NotTo(HaveOccurred())
	err = client.AppsV1().Deployments("d").Delete(t.Context(), "web", metav1.DeleteOptions{})
	g.Expect(names.IsNotFound(err, appsv1.Resource("deployments"), "web")).To(BeTrue())
	g.Expect(names.IsNotFound(err, appsv1.Resource("deployments"), "other")).To(BeFalse())
	g.Expect(names.IsNotFound(err, appsv1.Resource("replicasets"), "web")).To(BeFalse())
	g.Expect(names.IsNotFound(nil, appsv1.Resource("deployments"), "web")).To(BeFalse())
}

func TestWithoutAClientNothingIsDeleted(t *testing.T) {
	_, ok, err := names.Live[*corev1.Service](t.Context(), nil, "web")
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("the client is nil")))
	NewWithT(t).Expect(ok).To(BeFalse())
}
