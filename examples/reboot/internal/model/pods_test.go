package model_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const guarded = "guarded"

// scheduler puts Pods on a node that is not cordoned.
func (w *world) scheduler(ctx context.Context, name string) {
	w.may(w.pods, "a Pod is bound to "+name, func() bool {
		n := w.monitor.nodes[name]
		return n != nil && n.exists && !n.cordoned && w.podsOn(name) < 2
	}, func() { w.createPod(ctx, name) })
}

func (w *world) podsOn(name string) int {
	count := 0
	for _, node := range w.monitor.pods {
		if node == name {
			count++
		}
	}
	return count
}

func (w *world) createPod(ctx context.Context, node string) {
	w.bound++
	grace := int64(0)
	pods := w.core.CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", w.bound), Labels: map[string]string{"app": guarded}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		panic(err)
	}
}

// createBudget makes the disruption budget of all these Pods.
func (w *world) createBudget(ctx context.Context) {
	_, err := w.core.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: guarded},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": guarded}}},
	}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	w.budget(ctx, 1000)
}

// budget lets that many Pods go.
func (w *world) budget(ctx context.Context, allowed int) {
	budgets := w.core.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	budget, err := budgets.Get(ctx, guarded, metav1.GetOptions{})
	if err != nil {
		panic(err)
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, DisruptionsAllowed: int32(allowed), CurrentHealthy: 1, DesiredHealthy: 1,
	}
	if _, err := budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{}); err != nil {
		panic(err)
	}
}
