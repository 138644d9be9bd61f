package machines_test

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/published/machines"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// The programs are in modules of their own. One that does nothing shows that
// the server takes the objects.
func TestCasesAreValid(t *testing.T) {
	g := gomega.NewWithT(t)
	idle := func(env *reconciletest.Env) error {
		<-env.Context().Done()
		return nil
	}
	for _, c := range []*reconciletest.Case{machines.Rollout(idle), machines.Finalizer(idle), machines.Scale(idle)} {
		g.Expect(reconciletest.Search(t, c, machines.Options()).Failure).To(gomega.ContainSubstring("makes no call"))
	}
}
