package operator

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
)

func TestAMissingPermissionOfANamespaceIsNamedUntilItIsGranted(t *testing.T) {
	g := NewWithT(t)
	var granted, silent atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		review, ok := asked.(*authorizationv1.SelfSubjectAccessReview)
		if err != nil || !ok || silent.Load() {
			http.Error(w, "no answer", http.StatusBadGateway)
			return
		}
		review.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"))
		review.Status.Allowed = review.Spec.ResourceAttributes.Namespace == "a" || granted.Load()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer server.Close()
	c, err := cluster.New(&rest.Config{Host: server.URL}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	needs, err := parseNeeds([]string{"list pods in a?", "list pods in b?", "get pods in c"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	asks := asker{map[string]*cluster.Cluster{first: c}, time.Minute, noneOptional}
	at := &tenants{asker: asks, needs: needs[:2], missing: make([]bool, 2)}
	ask := func() []string {
		var texts []string
		for n := range at.needs {
			at.ask(t.Context(), n)
		}
		for _, p := range at.problems() {
			texts = append(texts, p.Check+": "+p.String())
		}
		return texts
	}
	const missing = `permissions: namespace "b": missing permission to list pods in namespace b; grant it, for example with a Role in b`
	g.Expect(ask()).To(Equal([]string{missing}))
	silent.Store(true)
	g.Expect(ask()).To(Equal([]string{missing}), "what was known stays")
	silent.Store(false)
	granted.Store(true)
	g.Expect(ask()).To(BeEmpty())
}
