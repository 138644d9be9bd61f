package reconciletest_test

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A smaller case may fail for another reason: old caches explain nothing of a
// restart that fails without them.
func TestAPlainRestartIsMadeSmallerToPlainRestarts(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(breeding.Right)
	plain := gomega.MatchRegexp(`^t\d+\.0$`)
	g.Expect(reconciletest.Alike(t, c, "t1.0")).To(gomega.And(gomega.HaveEach(plain), gomega.HaveLen(5)))
	g.Expect(reconciletest.Alike(t, c, "t1.2")).To(gomega.And(
		gomega.HaveEach(gomega.Not(plain)), gomega.ContainElement("t2.1")))
}
