//go:build e2e

package status_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/status"
)

// The program has its own service account with exactly the permissions of
// system:auth-delegator.
func TestE2EReviewedKnowsTheServersOwnTokens(t *testing.T) {
	g := NewWithT(t)
	cluster, err := e2e.Start(t.Context(), &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cluster.Stop()).To(Succeed()) })
	create := []string{"create"}
	program, err := cluster.ServiceAccount(t.Context(), e2e.ServiceAccount{
		Namespace: "default", Name: "program", ClusterRules: []rbacv1.PolicyRule{
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: create},
			{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: create},
		},
	})
	g.Expect(err).NotTo(HaveOccurred())
	reader, err := cluster.ServiceAccount(t.Context(), e2e.ServiceAccount{
		Namespace: "default", Name: "reader", ClusterRules: []rbacv1.PolicyRule{
			{NonResourceURLs: []string{"/metrics", "/debug/homeostat"}, Verbs: []string{"get"}},
		},
	})
	g.Expect(err).NotTo(HaveOccurred())

	authorize := status.Reviewed(kubernetes.NewForConfigOrDie(program))
	bearer := func(token string) string { return "Bearer " + token }
	for _, path := range []string{"/metrics", "/debug/homeostat"} {
		g.Expect(authorize(requestWith(path, bearer(reader.BearerToken)))).To(Succeed(), path)
		g.Expect(authorize(requestWith(path, bearer(program.BearerToken)))).To(MatchError(
			"the user is not allowed to get this path"))
		g.Expect(authorize(requestWith(path, bearer(reader.BearerToken+"x")))).To(MatchError(status.ErrUnauthenticated))
		g.Expect(authorize(requestWith(path, ""))).To(MatchError(status.ErrUnauthenticated))
	}
	g.Expect(authorize(requestWith("/debug/pprof/heap", bearer(reader.BearerToken)))).NotTo(Succeed())

	handler, err := status.New(&status.Options{Authorize: status.Reviewed(kubernetes.NewForConfigOrDie(reader))})
	g.Expect(err).NotTo(HaveOccurred())
	ask := func() int {
		return client{g, handler}.response(requestWith("/metrics", bearer(reader.BearerToken))).StatusCode
	}
	g.Expect(ask()).To(Equal(http.StatusServiceUnavailable), "an account that may not review refuses")
}
