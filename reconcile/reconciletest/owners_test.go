package reconciletest_test

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// owning breeds children whose owner reference is edited.
func owning(edit func(*metav1.OwnerReference)) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if len(b.ChildrenOf(p)) > 0 {
			return nil
		}
		s := breeding.Child(p)
		edit(&s.OwnerReferences[0])
		return b.Create(ctx, s)
	}
}

// stray gives the child an owner that does not exist.
var stray = owning(func(o *metav1.OwnerReference) { o.UID = "nobody" })

func TestAnOwnerThatDoesNotExistIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*metav1.OwnerReference)
		want string // in the failure; empty if the case must not fail
	}{
		"a UID of nobody": {
			func(o *metav1.OwnerReference) { o.UID = "nobody" },
			`secrets d/a-child has the owner v1 ConfigMap "a", and no object has or had its UID, "nobody"`,
		},
		"a kind that is not served": {
			func(o *metav1.OwnerReference) { o.APIVersion, o.Kind = "example.com/v1", "Farm" },
			`secrets d/a-child has the owner example.com/v1 Farm "a", and the server serves no such kind`,
		},
		"its owner": {func(*metav1.OwnerReference) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(owning(row.edit))
			c.Goal = nil
			r := reconciletest.FailureOf(t, c, nil, "^x|lost$")
			if row.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				return
			}
			g.Expect(r.Oracle).To(gomega.Equal("owner"))
			g.Expect(r.Reason).To(gomega.Equal("stray-owner"))
			g.Expect(r.Failure).To(gomega.ContainSubstring(row.want))
		})
	}
}
