package state_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

func TestANameIsGeneratedOnlyIfTheServerHasMadeIt(t *testing.T) {
	long := strings.Repeat("x", 60)
	for name, row := range map[string]struct {
		generateName string
		want         bool
	}{
		"web-bx7zq":         {"web-", true},
		"web-0":             {"web-", false}, // of a StatefulSet, which gives both
		"web-first":         {"web-", false}, // i is no letter of the server's
		"web":               {"", false},
		"other-bx7zq":       {"web-", false},
		long[:58] + "bx7zq": {long, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{}
			o.SetName(name)
			o.SetGenerateName(row.generateName)
			prefix, ok := state.Generated(o)
			g := gomega.NewWithT(t)
			g.Expect(prefix).To(gomega.Equal(row.generateName))
			g.Expect(ok).To(gomega.Equal(row.want))
		})
	}
}
