package reconciletest_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/homeostat/homeostat/internal/proof/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

func TestReportComparesRules(t *testing.T) {
	g := gomega.NewWithT(t)
	report := reconciletest.Search(t, breeding.Case(breeding.Right), &reconciletest.Options{Budget: time.Second})
	missing, unused := report.Compare([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{
			"list", "watch", "patch",
			"delete",
		}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}},
	})
	g.Expect(missing).To(gomega.Equal([]string{"create secrets"}))
	g.Expect(unused).To(gomega.Equal([]string{"delete configmaps", "* deployments.apps"}))
	missing, unused = report.Compare([]rbacv1.PolicyRule{{
		APIGroups: []string{"*"}, Resources: []string{"*"},
		Verbs: []string{"*"},
	}})
	g.Expect(missing).To(gomega.BeEmpty())
	g.Expect(unused).To(gomega.BeEmpty())
}
