package reconciletest_test

import (
	"testing"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A smaller case must fail for the same reason. If a restart fails with current
// caches, stale caches are not the reason.
func TestAPlainRestartIsMadeSmallerToPlainRestarts(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	plain := gomega.MatchRegexp(`^t\d+\.0$`)
	g.Expect(reconciletest.Alike(t, c, "t1.0")).To(gomega.And(gomega.HaveEach(plain), gomega.HaveLen(5)))
	g.Expect(reconciletest.Alike(t, c, "t1.2")).To(gomega.And(
		gomega.HaveEach(gomega.Not(plain)), gomega.ContainElement("t2.1")))
}

// A program that takes any error for a deletion is not one that takes a wrong
// 404 for it, and a wrong 404 of a proxy is the plainest of its kind.
func TestAFailureIsShownWithTheWeakestFault(t *testing.T) {
	for name, row := range map[string]struct {
		absent func(error) bool
		under  string
		want   string
	}{
		"a failure for a wrong 404": {func(error) bool { return true }, `^c\d+\.other$`, `^500 instead of call 8: the state`},
		"a proxy's for a version's": {apierrors.IsNotFound, `^c\d+\.unserved$`, `^404 of a proxy instead of call 8: a 404`},
		"no 409 for a deletion":     {func(error) bool { return true }, `^c8\.500$`, `^500 instead of call 8: the state`},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			r := reconciletest.FailureOf(t, deleting(row.absent), nil, row.under)
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
		})
	}
}
