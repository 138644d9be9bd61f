package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
)

// A Client lists and evicts Pods, as clientset.CoreV1() does.
type Client = typedcorev1.PodsGetter

// Pass is the result of one pass over a node.
type Pass struct {
	// Left are the Pods that must leave and were there, as namespace/name, sorted.
	Left []string
	// Refused are those of them whose eviction was refused, by name.
	Refused []Refusal
}

// A Refusal is an eviction that the server has refused.
type Refusal struct {
	// Pod is namespace/name.
	Pod string
	// Why names the disruption budget, if one is the reason.
	Why string
}

func (r Refusal) String() string { return "Pod " + r.Pod + ": " + r.Why }

// Over reports whether no Pod is left.
func (p Pass) Over() bool { return len(p.Left) == 0 }

// Refusals describes the refused evictions, "" if there are none. The text depends on
// nothing else.
func (p Pass) Refusals() string {
	texts := make([]string, 0, len(p.Refused))
	for _, r := range p.Refused {
		texts = append(texts, r.String())
	}
	return some(texts)
}

// Leftovers describes the Pods that are left: the refused ones with the reason.
func (p Pass) Leftovers() string {
	var texts []string
	for _, pod := range p.Left {
		i := slices.IndexFunc(p.Refused, func(r Refusal) bool { return r.Pod == pod })
		if i < 0 {
			texts = append(texts, "Pod "+pod+" is still terminating")
			continue
		}
		texts = append(texts, p.Refused[i].String())
	}
	return some(texts)
}

// some joins the first few of many texts.
func some(texts []string) string {
	const most = 3
	if len(texts) <= most {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(texts[:most], "; "), len(texts)-most)
}

// Evict makes one pass over the Pods of a node: it asks for the eviction of each that
// must leave and is not terminating yet.
//
// Errors: the Pods cannot be listed, or requests got no answer. A refusal by the
// server is not an error; it is in the result.
func Evict(ctx context.Context, pods Client, node string) (Pass, error) {
	list, err := pods.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return Pass{}, fmt.Errorf("listing the Pods of node %q: %w", node, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var pass Pass
	var errs []error
	for i := range list.Items {
		pod := &list.Items[i]
		if Stays(pod) {
			continue
		}
		name := pod.Namespace + "/" + pod.Name
		pass.Left = append(pass.Left, name)
		if pod.DeletionTimestamp != nil {
			continue
		}
		why, err := evict(ctx, pods, pod)
		if why != "" {
			pass.Refused = append(pass.Refused, Refusal{Pod: name, Why: why})
		}
		errs = append(errs, err)
	}
	return pass, errors.Join(errs...)
}

// Stays reports whether a drain leaves the Pod alone: it belongs to a DaemonSet, which
// would recreate it there, it is a mirror Pod of the kubelet, or it has ended.
func Stays(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
}

// evict asks for one eviction and returns why it was refused, or "".
func evict(ctx context.Context, pods Client, pod *corev1.Pod) (refused string, err error) {
	uid := pod.UID
	err = pods.Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	var status apierrors.APIStatus
	switch {
	case err == nil, patch.IsStale(err), names.IsNotFound(err, corev1.Resource("pods"), pod.Name):
		return "", nil // The next pass sees the result.
	case errors.As(err, &status):
		return reason(status.Status()), nil
	default:
		return "", fmt.Errorf("evicting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
}

// reason words a refusal: the message of a disruption budget names it.
func reason(status metav1.Status) string {
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				return cause.Message
			}
		}
	}
	return status.Message
}
