//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

var _ = Describe("ServiceAccount", func() {
	var (
		namespace string
		account   kubernetes.Interface
	)

	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		config, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{
			Namespace:    namespace,
			Name:         "reader",
			Rules:        may("list", "pods"),
			ClusterRules: may("list", "nodes"),
		})
		Expect(err).NotTo(HaveOccurred())
		account, err = kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
	})

	It("is who its token says", func(ctx SpecContext) {
		review, err := account.AuthenticationV1().SelfSubjectReviews().Create(ctx,
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(review.Status.UserInfo.Username).To(Equal("system:serviceaccount:" + namespace + ":reader"))
	})

	It("may do what its rules say, in its namespace and in the cluster", func(ctx SpecContext) {
		_, err := account.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = account.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("may not do anything else", func(ctx SpecContext) {
		_, err := account.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "listing in another namespace: %v", err)
		err = account.CoreV1().Pods(namespace).Delete(ctx, "any", metav1.DeleteOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "another verb: %v", err)
		_, err = account.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "another resource: %v", err)
	})

	It("is an error when its namespace is not there", func(ctx SpecContext) {
		_, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: "nowhere", Name: "reader"})
		Expect(err).To(MatchError(
			`creating service account nowhere/reader: namespaces "nowhere" not found`))
	})
})

func may(verb, resource string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{resource}}}
}
