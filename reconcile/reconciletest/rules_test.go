package reconciletest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A call that the manifest does not grant is a finding, with the permission to
// add; so is a verb that no run needs.
func TestTheManifestIsHeldAgainstTheCalls(t *testing.T) {
	exhaustive(t)
	manifest, err := os.ReadFile("testdata/role.yaml")
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	const secrets = "watch, create]"
	for name, row := range map[string]struct {
		old, edited string
		unneeded    []string
		want        []string
	}{
		"a verb is missing": {secrets, "watch]", nil, []string{
			"it may not create secrets d/a-child: add to the rules of ClusterRole breeder in ",
			`- {apiGroups: [""], resources: ["secrets"], verbs: ["create"]}`, "breeding.go:",
		}},
		"a Role is of one namespace": {"ClusterRole", "Role", nil, []string{
			" configmaps of all namespaces: add to a ClusterRole\n",
		}},
		"names": {"[list, watch, patch]", "[list, watch]\n  - apiGroups: [\"\"]\n    resources: [configmaps]\n" +
			"    verbs: [patch]\n    resourceNames: [b]", nil, []string{
			"it may not patch configmaps d/a: ",
		}},
		"names do not allow the list of all": {
			"[list, watch, patch]", "[list, watch, patch]\n    resourceNames: [a, b]",
			nil,
			[]string{"configmaps of all namespaces: add to the rules of "},
		},
		"a verb too many": {secrets, "watch, create, delete]", nil, []string{
			"no run needs these grants", "delete secrets (ClusterRole breeder in ",
		}},
		"it is said to be needed": {old: secrets, edited: "watch, create, delete]", unneeded: []string{"delete secrets"}},
		"what no run shows": {old: "[secrets]\n    verbs: [list, watch, create]", edited: "[secrets, configmaps/finalizers, events]\n" +
			"    verbs: [list, watch, create]"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			file := filepath.Join(t.TempDir(), "rbac.yaml")
			text := "kind: ServiceAccount\n---\n" + strings.Replace(string(manifest), row.old, row.edited, 1)
			g.Expect(text).NotTo(gomega.ContainSubstring(string(manifest)))
			g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(gomega.Succeed())
			c := breeding.Case(breeding.Right)
			c.Workload, c.Goal, c.Roles, c.Unneeded = nil, nil, []string{file}, row.unneeded
			r := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget, Seeds: 1})
			for _, part := range row.want {
				g.Expect(r.Failure).To(gomega.ContainSubstring(part))
				g.Expect(r.Oracle).To(gomega.Equal("role"))
			}
			if row.want == nil {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				g.Expect(r.Unused).To(gomega.BeEmpty())
			}
		})
	}
}
