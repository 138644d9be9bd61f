package apisim

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var budgets = schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}

// evict deletes a Pod if its disruption budget allows it. The server does not
// compute budgets. A test or an actor must set their status.
func (x subresource) evict() (*output, error) {
	var e policyv1.Eviction
	if err := json.Unmarshal(x.r.body, &e); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if e.Name != x.r.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	opts := e.DeleteOptions
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	if len(opts.DryRun) > 0 {
		x.r.query["dryRun"] = opts.DryRun
	}
	current := x.t.objects[x.r.key()]
	if current == nil {
		return nil, apierrors.NewNotFound(x.t.res.groupResource(), x.r.Name)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(current.raw, &pod); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if !unguarded(&pod) {
		if err := askBudget(x, &pod); err != nil {
			return nil, err
		}
	}
	if err := evictPod(x, opts); err != nil {
		return nil, err
	}
	return created()
}

func evictPod(x subresource, opts *metav1.DeleteOptions) error {
	current := x.t.objects[x.r.key()]
	if err := precondition(x.t, current, opts.Preconditions); err != nil {
		return err
	}
	obj := clone(current.obj)
	setCondition(obj, object{
		"type": string(corev1.DisruptionTarget), "status": "True", "reason": "EvictionByEvictionAPI",
		"message":       "Eviction API: evicting",
		"lastProbeTime": nil, "lastTransitionTime": x.s.now(),
	})
	if err := x.overwrite(current, obj); err != nil {
		return err
	}
	if opts.Preconditions != nil {
		// the condition has changed the version since the precondition was
		// checked
		opts.Preconditions.ResourceVersion = nil
	}
	_, err := x.deleteObject(x.t.objects[x.r.key()], opts)
	return err
}

// unguarded reports whether a Pod can be evicted regardless of its budget,
// because it has ended, has not started yet, or is being deleted.
func unguarded(pod *corev1.Pod) bool {
	phases := []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending}
	return slices.Contains(phases, pod.Status.Phase) || pod.DeletionTimestamp != nil
}

// askBudget finds the Pod's budget and calls takeDisruption. It returns nil if
// the Pod has no budget, and an error if it has several.
func askBudget(x subresource, pod *corev1.Pod) error {
	x = subresource{&exchange{s: x.s, t: x.s.tables[budgets], r: x.r}}
	var found []*stored
	for _, o := range x.t.objectsAt(x.s.version) {
		if o.key.Namespace == pod.Namespace && selects(o, pod) {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return takeDisruption(x, found[0], pod)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500,
		Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	}}
}

func selects(budget *stored, pod *corev1.Pod) bool {
	var pdb policyv1.PodDisruptionBudget
	if json.Unmarshal(budget.raw, &pdb) != nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// takeDisruption reduces by one how many disruptions the budget allows. It
// returns an error if the budget allows none. A Pod that is not ready may need
// no disruption; see UnhealthyPodEvictionPolicy of the budget. x must be an
// exchange on the table of budgets.
func takeDisruption(x subresource, budget *stored, pod *corev1.Pod) error {
	var pdb policyv1.PodDisruptionBudget
	if err := json.Unmarshal(budget.raw, &pdb); err != nil {
		return apierrors.NewInternalError(err)
	}
	st := &pdb.Status
	if !ready(pod) {
		alwaysAllowed := pdb.Spec.UnhealthyPodEvictionPolicy != nil &&
			*pdb.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
		if alwaysAllowed || st.CurrentHealthy >= st.DesiredHealthy && st.DesiredHealthy > 0 {
			return nil
		}
	}
	if st.ObservedGeneration < pdb.Generation {
		return noDisruption(fmt.Sprintf("The disruption budget %s is still being processed by the server.",
			pdb.Name), 10)
	}
	if st.DisruptionsAllowed == 0 {
		message := fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", pdb.Name,
			st.DesiredHealthy, st.CurrentHealthy)
		if st.CurrentHealthy > st.DesiredHealthy {
			message = fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", pdb.Name)
		}
		return noDisruption(message, 0)
	}
	st.DisruptionsAllowed--
	if st.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
			ObservedGeneration: st.ObservedGeneration,
		})
	}
	if st.DisruptedPods == nil {
		st.DisruptedPods = map[string]metav1.Time{}
	}
	st.DisruptedPods[pod.Name] = metav1.Now()
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pdb)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return x.overwrite(budget, obj)
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func noDisruption(message string, retryAfter int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: message}}
	return err
}
