package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
)

const (
	// evictTime is the time limit of one eviction.
	evictTime = 5 * time.Second
	// parallelEvictions is the number of evictions that are requested at the
	// same time.
	parallelEvictions = 10
	// bindingTime is how long Pods may still appear on the node after the first
	// pass because the scheduler had not seen the cordon when it bound them.
	bindingTime = time.Minute
)

// A Drain evicts the Pods of one node, from one process. It is not safe for
// concurrent use.
type Drain struct {
	client Client
	node   string
	first  time.Time
	// seen contains the Pods that must leave. The value is true if the
	// server has answered a request for the Pod's eviction, or if the Pod
	// is terminating.
	seen map[types.UID]bool
}

// New returns a drain for a node.
func New(client Client, node string) *Drain {
	return &Drain{client: client, node: node, seen: map[types.UID]bool{}}
}

// Pass makes one pass over the Pods of the node. It requests the eviction of
// each Pod that must leave and is not terminating yet. It begins with the Pods
// for which the server has not answered a request yet.
//
// Pods that count as created after the node was cordoned are not evicted,
// because their owner would create new ones. A Pod counts as such if no earlier
// pass has seen it, and it tolerates the cordon or appears more than a minute
// after the first pass. No Pod counts as such in the first pass, or in a pass
// for which cordoned is false.
//
// Pass returns an error if the Pods cannot be listed, or if a request had no
// answer. A refusal by the server is not an error, but part of the result.
func (d *Drain) Pass(ctx context.Context, cordoned bool) (Pass, error) {
	list, err := d.client.List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", d.node).String(),
	})
	if err != nil {
		return Pass{}, fmt.Errorf("listing the Pods of node %q: %w", d.node, err)
	}
	first := d.first.IsZero() || !cordoned
	if first {
		d.first = time.Now()
	}
	var pass Pass
	var asked []*corev1.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		switch {
		case Stays(pod):
		case !first && d.arrivedLate(pod):
			pass.Returned = append(pass.Returned, nameOf(pod))
		case pod.DeletionTimestamp != nil:
			d.seen[pod.UID] = true
			pass.Left = append(pass.Left, Leftover{Pod: nameOf(pod), State: Terminating})
		default:
			if _, known := d.seen[pod.UID]; !known {
				d.seen[pod.UID] = false
			}
			asked = append(asked, pod)
		}
	}
	slices.Sort(pass.Returned)
	left, err := d.evict(ctx, asked)
	pass.Left = append(pass.Left, left...)
	slices.SortFunc(pass.Left, func(a, b Leftover) int { return cmp.Compare(a.Pod, b.Pod) })
	return pass, err
}

// arrivedLate reports whether the Pod counts as created after the node was
// cordoned: no earlier pass has seen it, and it tolerates the cordon or appears
// later than bindingTime after the first pass. The drain does not evict such a
// Pod.
func (d *Drain) arrivedLate(pod *corev1.Pod) bool {
	_, known := d.seen[pod.UID]
	return !known && (tolerates(pod) || time.Since(d.first) > bindingTime)
}

// tolerates reports whether the scheduler may put the Pod on a cordoned node.
func tolerates(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return (t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule) &&
			(t.Key == corev1.TaintNodeUnschedulable || t.Key == "" && t.Operator == corev1.TolerationOpExists)
	})
}

// evict requests the evictions of pods, several at the same time. It sorts
// pods, so that the Pods whose eviction the server has not answered in an
// earlier pass are first. It returns a Leftover for each of pods, with the
// server's answer. A Pod whose eviction was not requested before ctx ended has
// the state NotAsked.
func (d *Drain) evict(ctx context.Context, pods []*corev1.Pod) ([]Leftover, error) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(rank(d.seen[a.UID])-rank(d.seen[b.UID]), cmp.Compare(nameOf(a), nameOf(b)))
	})
	leftovers, errs := make([]Leftover, len(pods)), make([]error, len(pods))
	places := make(chan struct{}, parallelEvictions)
	var evictions sync.WaitGroup
	for i, pod := range pods {
		leftovers[i] = Leftover{Pod: nameOf(pod), State: NotAsked}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		evictions.Go(func() {
			leftovers[i].State, leftovers[i].Reason, errs[i] = d.ask(ctx, pod)
			<-places
		})
	}
	evictions.Wait()
	for i, pod := range pods {
		d.seen[pod.UID] = d.seen[pod.UID] || leftovers[i].State == Terminating || leftovers[i].State == Refused
		leftovers[i].NeverAsked = !d.seen[pod.UID]
	}
	return leftovers, errors.Join(errs...)
}

func rank(asked bool) int {
	if asked {
		return 1
	}
	return 0
}

// ask requests the eviction of a Pod. It returns the Pod's state after the
// answer. cause is the server's reason for a refusal, or the text of the error
// if there was no answer.
func (d *Drain) ask(ctx context.Context, pod *corev1.Pod) (state State, cause string, err error) {
	limited, cancel := context.WithTimeout(ctx, evictTime)
	defer cancel()
	uid := pod.UID
	err = d.client.Evict(limited, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	var status apierrors.APIStatus
	switch {
	case err == nil, patch.IsStale(err), names.IsNotFound(err, corev1.Resource("pods"), pod.Name):
		return Terminating, "", nil // The next pass sees the result.
	case errors.As(err, &status) && !foreign(status.Status()):
		return Refused, reason(status.Status()), nil
	default:
		return NoAnswer, err.Error(), fmt.Errorf("evicting Pod %s: %w", nameOf(pod), err)
	}
}

// foreign reports whether the status may have been sent by a proxy instead of
// the API server. In that case the request for an eviction may not have reached
// the server.
func foreign(s metav1.Status) bool {
	switch {
	case s.Code == http.StatusBadGateway, s.Code == http.StatusServiceUnavailable, s.Code == http.StatusGatewayTimeout:
		return true
	case s.Details == nil:
		return false
	default:
		return slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
			return c.Type == metav1.CauseTypeUnexpectedServerResponse
		})
	}
}

// Stays reports whether a drain leaves the Pod on the node. It does so for a
// mirror Pod of the kubelet, for a Pod that has ended, and for a Pod of a
// DaemonSet, because the DaemonSet would recreate the Pod on the node.
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

// reason returns the reason for a refused eviction. It names the disruption
// budget if that was the cause.
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

func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
