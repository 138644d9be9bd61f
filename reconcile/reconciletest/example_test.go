package reconciletest_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/proof/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// TestBreederSurvives is how a user's test looks.
func TestBreederSurvives(t *testing.T) {
	reconciletest.Explore(t, &reconciletest.Case{
		Objects: []runtime.Object{breeding.Parent("a")},
		Run:     breeding.Run(breeding.Right), // builds informers and controllers on env.Client() and runs them until env.Context() ends
		Workload: []reconciletest.Step{
			reconciletest.Create(breeding.Parent("b")),
			reconciletest.Delete("configmaps", "d/a"),
		},
	}, &reconciletest.Options{Budget: 2 * time.Second})
}
