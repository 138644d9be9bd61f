package reconcile_test

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/patch"
)

// Conditions need no helper: apimachinery sets one and keeps its transition
// time while its status stays, and package patch sends nothing if nothing is
// different.
func Example_conditions() {
	ctx := context.Background()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web", Generation: 3}}
	client := fake.NewClientset(budget)
	budgets := client.PolicyV1().PodDisruptionBudgets

	newest := budget
	for range 2 {
		var err error
		newest, err = patch.Status(ctx, budgets, newest, nil, func(edit *policyv1.PodDisruptionBudget) {
			meta.SetStatusCondition(&edit.Status.Conditions, metav1.Condition{
				Type: "Ready", Status: metav1.ConditionTrue, Reason: "EnoughPods", ObservedGeneration: edit.Generation,
			})
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		ready := meta.FindStatusCondition(newest.Status.Conditions, "Ready")
		fmt.Println("requests:", len(client.Actions()), "ready:", ready.Status, "seen generation:", ready.ObservedGeneration)
	}
	// Output:
	// requests: 1 ready: True seen generation: 3
	// requests: 1 ready: True seen generation: 3
}
