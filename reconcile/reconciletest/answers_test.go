package reconciletest_test

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// retyping gives the child another type after it was created, which the server
// refuses. It does its other work first, so that the program makes progress.
func retyping(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if err := breeding.Right(ctx, b, p); err != nil {
		return err
	}
	for _, s := range b.ChildrenOf(p) {
		edit := s.DeepCopy()
		edit.Type = corev1.SecretTypeTLS
		if _, err := b.Client.CoreV1().Secrets(p.Namespace).Update(ctx, edit, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// misnaming creates a child whose name the server refuses, and swallows the
// error.
func misnaming(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	child := breeding.Child(p)
	child.Name = "No_Name"
	_ = b.Create(ctx, child)
	return nil
}

func TestAWriteThatIsRefusedAgainAndAgainIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		breed  breeding.Breed
		known  []string
		reason string
		want   string
	}{
		"a field is immutable": {
			retyping, nil, "refused",
			`update secrets d/a-child   → 422 Secret "a-child" is invalid: \[type: .*immutable(.*\n)* +\d+ times within`,
		},
		"it is known":          {retyping, []string{"update secrets d/a-child", "no write follows"}, "", "^$"},
		"nothing else happens": {misnaming, nil, "idle", `all of its \d+ writes were refused: 422 Secret "No_Name" is invalid`},
		"it is right":          {breeding.Right, nil, "", "^$"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(row.breed)
			c.Goal = nil
			r := reconciletest.Search(t, c, &reconciletest.Options{KnownFindings: row.known, Seeds: 1, Budget: time.Nanosecond})
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
			g.Expect(r.Reason).To(gomega.Equal(row.reason))
		})
	}
}

func TestATraceShowsAnswersAndTime(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(retyping)
	c.Workload = nil
	lines, _ := reconciletest.TraceOf(t, c, &reconciletest.Options{KnownFindings: []string{"refuses", "no write follows"}}, "j1")
	g.Expect(lines).To(gomega.ContainElement(gomega.MatchRegexp(
		`^call      update secrets d/a-child   \(.*\)   → 422 Secret "a-child" is invalid: \[type`)))
	g.Expect(lines).To(gomega.ContainElement(gomega.MatchRegexp(`^later     1h\d*m?$`)))
}
