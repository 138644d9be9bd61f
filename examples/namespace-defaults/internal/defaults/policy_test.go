package defaults_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
)

func TestPoliciesThatMakeNoSense(t *testing.T) {
	for reason, text := range map[string]string{
		"owner is empty":          "quota: {pods: 1}\nlimits: [{type: Pod}]",
		"quota is empty":          "owner: x\nlimits: [{type: Pod}]",
		"limits is empty":         "owner: x\nquota: {pods: 1}",
		"limits[0].type is empty": "owner: x\nquota: {pods: 1}\nlimits: [{}]",
		`unknown field "quotas"`:  "owner: x\nquotas: {pods: 1}\nlimits: [{type: Pod}]",
		"quantities must match":   "owner: x\nquota: {pods: many}\nlimits: [{type: Pod}]",
		"did not find":            "owner: [",
	} {
		t.Run(reason, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join(t.TempDir(), "policy.yaml")
			g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
			_, err := defaults.ReadPolicy(path)
			g.Expect(err).To(MatchError(And(ContainSubstring(path), ContainSubstring(reason))))
		})
	}
	_, err := defaults.ReadPolicy(filepath.Join(t.TempDir(), "none"))
	NewWithT(t).Expect(err).To(MatchError(os.ErrNotExist))
	_, err = defaults.New(nil, &defaults.Policy{}, nil)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("owner is empty")))
}
