package reconcile_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
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

func ExampleFinalizer() {
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "disk"}})
	disks := client.CoreV1().ConfigMaps("d")
	finalizer := reconcile.Finalizer[*corev1.ConfigMap, typedcorev1.ConfigMapInterface]{
		Name: "example.com/disk", Client: client.CoreV1().ConfigMaps,
		Clean: func(_ context.Context, disk *corev1.ConfigMap) error {
			fmt.Println("wiping", disk.Name)
			return nil
		},
	}
	keep := reconcile.Func[*corev1.ConfigMap](
		func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			disk, ok := r.Object()
			if !ok {
				return reconcile.Result{}, nil
			}
			live, disk, err := finalizer.Guard(ctx, disk)
			if err != nil || !live {
				return reconcile.Result{}, err
			}
			fmt.Println("formatting", disk.Name, "which has", disk.Finalizers)
			return reconcile.Result{}, nil
		})

	ctx := context.Background()
	disk, _ := disks.Get(ctx, "disk", metav1.GetOptions{})
	_, err := keep(ctx, reconcile.Request[*corev1.ConfigMap]{}.WithObject(disk))
	fmt.Println(err)
	disk, _ = disks.Get(ctx, "disk", metav1.GetOptions{})
	now := metav1.Now()
	disk.DeletionTimestamp = &now
	_, err = keep(ctx, reconcile.Request[*corev1.ConfigMap]{}.WithObject(disk))
	fmt.Println(err)
	// Output:
	// formatting disk which has [example.com/disk]
	// <nil>
	// wiping disk
	// <nil>
}
