package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

var _ = Describe("The rights of a ServiceAccount", func() {
	It("are granted before its token is handed out", func(ctx SpecContext) {
		client, late := fake.NewClientset(), 2
		var asked []string
		client.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			switch o := a.(clienttesting.CreateAction).GetObject().(type) {
			case *authorizationv1.SubjectAccessReview:
				asked = append(asked, o.Spec.User+" "+describe(o.Spec))
				late--
				return true, &authorizationv1.SubjectAccessReview{
					Status: authorizationv1.SubjectAccessReviewStatus{Allowed: late < 0},
				}, nil
			case *authenticationv1.TokenRequest:
				asked = append(asked, "token")
				return true, &authenticationv1.TokenRequest{
					Status: authenticationv1.TokenRequestStatus{Token: "secret"},
				}, nil
			}
			return false, nil, nil
		})
		config, err := e2e.NewCluster(client).ServiceAccount(ctx, e2e.ServiceAccount{
			Namespace: "harbour",
			Name:      "pilot",
			Rules: []rbacv1.PolicyRule{{
				Verbs: []string{"update", "get"}, APIGroups: []string{"apps"}, Resources: []string{"deployments/status"},
			}},
			ClusterRules: []rbacv1.PolicyRule{
				{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes"}},
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
			},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(config.BearerToken).To(Equal("secret"))
		const user = "system:serviceaccount:harbour:pilot "
		Expect(asked).To(HaveExactElements(
			user+"update deployments status apps in harbour",
			user+"update deployments status apps in harbour",
			user+"update deployments status apps in harbour",
			user+"list nodes   in ",
			user+"get /metrics",
			"token",
		))
	}, SpecTimeout(long))
})

func describe(s authorizationv1.SubjectAccessReviewSpec) string {
	if n := s.NonResourceAttributes; n != nil {
		return n.Verb + " " + n.Path
	}
	r := s.ResourceAttributes
	return r.Verb + " " + r.Resource + " " + r.Subresource + " " + r.Group + " in " + r.Namespace
}
