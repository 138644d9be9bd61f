package reconciletest_test

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// deleting deletes the child of a parent that has no size. An error for which
// absent returns true shows that the child does not exist.
func deleting(absent func(error) bool) *reconciletest.Case {
	c := breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		children := b.ChildrenOf(p)
		switch {
		case p.Data["size"] != "" && len(children) == 0:
			return b.Create(ctx, breeding.Child(p))
		case p.Data["size"] != "" || len(children) == 0:
			return nil
		}
		uid := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(children[0].UID))}
		err := b.Client.CoreV1().Secrets(p.Namespace).Delete(ctx, children[0].Name, uid)
		if absent(err) {
			return nil
		}
		return err
	})
	c.Goal, c.Workload = nil, []reconciletest.Step{
		reconciletest.Patch("configmaps", "d/a", `{"data":{"size":"1"}}`),
		reconciletest.Patch("configmaps", "d/a", `{"data":{"size":null}}`),
	}
	return c
}

func TestA404ThatIsNotAboutTheObjectIsNoDeletion(t *testing.T) {
	exact := func(err error) bool { return names.IsNotFound(err, corev1.Resource("secrets"), "a-child") }
	for name, row := range map[string]struct {
		absent func(error) bool
		known  []string
		want   string
	}{
		"any 404 is taken for it":   {apierrors.IsNotFound, nil, `^404 .* call 8: a 404 .* is taken for its deletion: the state`},
		"its own 404 is asked for":  {exact, nil, "^$"},
		"the case knows of it":      {apierrors.IsNotFound, []string{"taken for its deletion"}, "^$"},
		"the case knows of another": {apierrors.IsNotFound, []string{"taken for its absence"}, "taken for its deletion"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			o := &reconciletest.Options{KnownFindings: row.known}
			r := reconciletest.FailureOf(t, deleting(row.absent), o, `^c\d+\.(proxy|unserved|other)$`)
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
			g.Expect(r.Runs).To(gomega.BeNumerically(">", 3), "a deviation was tried")
			if r.Failure != "" {
				g.Expect(r.Reason).To(gomega.Equal("misled"))
			}
		})
	}
}
