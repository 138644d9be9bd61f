package roll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	podNamespace = "reboot-demo"
	budgetName   = "one-must-stay"
	inProgress   = "reboot.homeostat.dev/reboot-in-progress"
	// showTime is how long the disruption budget exists after it has refused an
	// eviction, so that people can see the blocked drain.
	showTime = 2 * time.Second
)

// populate runs a Pod on each node. A disruption budget protects the first Pod.
// If the API server is simulated, populate also sets the status of the budget,
// because no disruption controller does that.
func (c *cluster) populate(ctx context.Context, nodes []string, simulated bool) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: podNamespace}}
	_, err := c.core.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %q: %w", podNamespace, err)
	}
	for i, node := range nodes {
		app := "web"
		if i == 0 {
			app = "database"
		}
		if err := c.runPod(ctx, app, node); err != nil {
			return err
		}
	}
	minAvailable := intstr.FromInt32(1)
	budgets := c.core.PolicyV1().PodDisruptionBudgets(podNamespace)
	budget, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: budgetName},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &minAvailable, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "database"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the disruption budget: %w", err)
	}
	if !simulated {
		return nil
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ // as the disruption controller would
		ObservedGeneration: budget.Generation, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1,
	}
	if _, err := budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("setting the status of the disruption budget: %w", err)
	}
	return nil
}

// runPod creates a Pod and reports it as running, as a kubelet would.
func (c *cluster) runPod(ctx context.Context, app, node string) error {
	pods := c.core.CoreV1().Pods(podNamespace)
	grace := int64(0) // because no kubelet reports that the Pod has ended
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: app + "-on-" + node, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: app, Image: app}},
		},
	}
	created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	for err != nil { // the namespace's ServiceAccount is created a moment later
		if pause(ctx, pollInterval) != nil {
			return fmt.Errorf("creating Pod %q: %w", pod.Name, err)
		}
		created, err = pods.Create(ctx, pod, metav1.CreateOptions{})
	}
	created.Status.Phase = corev1.PodRunning
	created.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("starting Pod %q: %w", pod.Name, err)
	}
	return nil
}

// endPods removes the terminating Pods of the node, as a kubelet does. Usually
// there are no such Pods, because the API server itself removes evicted Pods
// without a grace period. The server leaves a Pod behind if the client that
// requested the eviction dies during the call.
func (c *cluster) endPods(ctx context.Context, node string) {
	pods := c.core.CoreV1().Pods(podNamespace)
	for pause(ctx, time.Second) == nil {
		list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			continue // the next round tries again
		}
		for i := range list.Items {
			if pod := &list.Items[i]; pod.DeletionTimestamp != nil {
				_ = pods.Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0)) // the next round tries again
			}
		}
	}
}

// awaitRefusal waits until the agent of a node reports refused evictions, and
// returns the report.
func (c *cluster) awaitRefusal(ctx context.Context, node string) (string, error) {
	for {
		var progress struct {
			Blocked string `json:"blocked"`
		}
		n, err := c.core.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err == nil {
			err = json.Unmarshal([]byte(n.Annotations[inProgress]), &progress) // The annotation may not exist yet.
		}
		if err == nil && progress.Blocked != "" {
			return progress.Blocked, nil
		}
		if ended := pause(ctx, pollInterval); ended != nil {
			return "", errors.Join(ended, err)
		}
	}
}

// unblock waits until the disruption budget has refused an eviction, and
// deletes the budget after showTime, as an administrator would. It returns the
// agent's report about the refusal.
func (r *roll) unblock(ctx context.Context) (string, error) {
	refused, err := r.cluster.awaitRefusal(ctx, r.machines[0].name)
	if err != nil {
		return "", err
	}
	r.show.say("%s cannot be drained: %s", r.machines[0].name, refused)
	if err := pause(ctx, showTime); err != nil {
		return "", err
	}
	if _, isUp := r.machines[0].state(); !isUp {
		return "", errors.New("the machine was rebooted although the disruption budget protected its Pod")
	}
	r.show.say("the administrator deletes the disruption budget %s", budgetName)
	err = r.cluster.core.PolicyV1().PodDisruptionBudgets(podNamespace).Delete(ctx, budgetName, metav1.DeleteOptions{})
	if err != nil {
		return "", fmt.Errorf("deleting the disruption budget: %w", err)
	}
	return refused, nil
}

// leftovers returns the names of the Pods that still exist. All of them should
// have been evicted by the drains.
func (c *cluster) leftovers(ctx context.Context) ([]string, error) {
	list, err := c.core.CoreV1().Pods(podNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of %q: %w", podNamespace, err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}
