package reconciletest_test

import (
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/test/breeding"
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

// A report shows how much of the plan was tried, and which permissions the
// program needed.
func ExampleReport() {
	r := &reconciletest.Report{
		Runs: 90, Planned: 120, Tried: 87, Calls: 12, Writes: 4, Deliveries: 8,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}},
	}
	fmt.Println(r, r.Covered())
	fmt.Println(r.Rules[0].Verbs, r.Rules[0].Resources)
	// Output:
	// 90 runs: 87 of 120 single deviations (72 %), 0 pairs; without faults: 12 calls, 4 writes, 8 deliveries false
	// [create] [secrets]
}

// A quota that is used up while the workload goes on, and then raised.
func ExampleAnswer() {
	workload := []reconciletest.Step{
		reconciletest.Answer("create pods", 403, ""),
		reconciletest.Create(breeding.Parent("b")),
		reconciletest.Answer("create pods", 0, ""),
	}
	for _, step := range workload {
		fmt.Println(step.Name)
	}
	// Output:
	// answer 403 to create pods
	// create ConfigMap d/b
	// answer as usual to create pods
}
