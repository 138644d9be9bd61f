package smoke

import (
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// discovered is the discovery document of a server with two versions of one
// kind, which prefers v2.
const discovered = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
  {"metadata":{"name":"autoscaling"},"versions":[
    {"version":"v2","freshness":"Current","resources":[{"resource":"horizontalpodautoscalers","scope":"Namespaced",
      "responseKind":{"group":"autoscaling","version":"v2","kind":"HorizontalPodAutoscaler"},"verbs":["list","watch"]}]},
    {"version":"v1","freshness":"Current","resources":[{"resource":"horizontalpodautoscalers","scope":"Namespaced",
      "responseKind":{"group":"autoscaling","version":"v1","kind":"HorizontalPodAutoscaler"},"verbs":["list","watch"]}]}
  ]}]}`

func TestTheServersPreferredVersionIsTaken(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		body := discovered
		if r.URL.Path == "/api" {
			body = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}`
		}
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	for range 50 { // the order of client-go's lists is random
		found, err := serverResources(&rest.Config{Host: server.URL, QPS: -1}, &reconciletest.Case{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found).To(HaveExactElements(HaveField("Version", "v2")))
	}
	found, err := serverResources(&rest.Config{Host: server.URL, QPS: -1}, &reconciletest.Case{Resources: []metav1.APIResource{{
		Group: "autoscaling", Version: "v1", Name: "horizontalpodautoscalers",
	}}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(HaveExactElements(HaveField("Version", "v1")), "the one that the case names")
}
