package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ask sets reboot-needed to a request.
func Ask(node *corev1.Node, request string) { annotate(node, Needed, request) }

// Allow removes reboot-needed and the permission of an earlier reboot, and sets
// reboot-now to g.
func Allow(node *corev1.Node, g Grant) error {
	delete(node.Annotations, Needed)
	delete(node.Annotations, Permit) // It may belong to an earlier reboot that a person has removed.
	return set(node, Now, g)
}

// AllowNow sets the permission m, with which the controller answers the agent's
// question whether the machine may go down. It also records the reboot among
// the recent reboots, with told as its time, and removes the recent reboots
// that took place before oldest. From the second question on, it keeps the time
// of the first permission, unless that is later than told: then a controller
// with a different clock has recorded it, and the time counts from told.
func AllowNow(node *corev1.Node, m Permission, told, oldest metav1.Time) error {
	state, entry := Read(node), Told{Epoch: m.Epoch, At: told}
	if first := state.Permitted(m.Epoch); m.Try > 1 && first.Before(told.Time) {
		entry.First.Time = first
	}
	recent := slices.DeleteFunc(state.Recent, func(t Told) bool { return t.Epoch == m.Epoch || t.At.Before(&oldest) })
	if err := set(node, Recent, append(recent, entry)); err != nil {
		return err
	}
	return set(node, Permit, m)
}

// Forget removes an epoch from the recent reboots, because its machine was not
// told to go down, or has refused.
func Forget(node *corev1.Node, epoch int64) error {
	recent := Read(node).Recent
	left := slices.DeleteFunc(slices.Clone(recent), func(t Told) bool { return t.Epoch == epoch })
	if len(left) == len(recent) {
		return nil
	}
	return set(node, Recent, left)
}

// VoidEpoch makes the epoch and all earlier epochs void. A void epoch cannot be
// granted any more.
func VoidEpoch(node *corev1.Node, epoch int64) {
	annotate(node, Void, strconv.FormatInt(epoch, 10))
}

// Revoke moves reboot-now back to reboot-needed, and makes its epoch void. If
// reboot-needed already contains a newer request, Revoke keeps the newer
// request.
func Revoke(node *corev1.Node, request string, epoch int64) {
	VoidEpoch(node, epoch)
	delete(node.Annotations, Now)
	if _, ok := node.Annotations[Needed]; !ok {
		annotate(node, Needed, request)
	}
}

// Accept removes the annotation reboot-now, sets reboot-in-progress to p, and
// cordons the node. The annotation's CordonedByAgent is true if the node was
// not cordoned before; the value in p has no effect.
func Accept(node *corev1.Node, p Progress) error {
	delete(node.Annotations, Now)
	p.CordonedByAgent = !node.Spec.Unschedulable
	node.Spec.Unschedulable = true
	return set(node, InProgress, p)
}

// Proceed replaces reboot-in-progress with p. If p records that the machine was
// told to reboot, Proceed also removes the permission, because it has been
// used.
func Proceed(node *corev1.Node, p Progress) error {
	if p.Asked != nil {
		delete(node.Annotations, Permit)
	}
	return set(node, InProgress, p)
}

// Decline moves reboot-now back to reboot-needed, and writes the reason to
// last-reboot. It keeps a newer request.
func Decline(node *corev1.Node, o Outcome) error {
	delete(node.Annotations, Now)
	return CallOff(node, o, false)
}

// CallOff moves reboot-in-progress back to reboot-needed, removes the
// permission, and writes the reason to last-reboot. It uncordons the node if
// uncordon is true, and keeps a newer request.
func CallOff(node *corev1.Node, o Outcome, uncordon bool) error {
	if _, ok := node.Annotations[Needed]; !ok {
		annotate(node, Needed, o.Request.Request)
	}
	return Complete(node, o, uncordon)
}

// Complete removes reboot-in-progress and the permission, and sets last-reboot
// to o. It uncordons the node if uncordon is true.
func Complete(node *corev1.Node, o Outcome, uncordon bool) error {
	delete(node.Annotations, InProgress)
	delete(node.Annotations, Permit)
	if uncordon {
		node.Spec.Unschedulable = false
	}
	return set(node, LastReboot, o)
}

// Restamp replaces the annotation last-reboot with o.
func Restamp(node *corev1.Node, o Outcome) error { return set(node, LastReboot, o) }

func set(node *corev1.Node, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing annotation %s of node %q: %w", key, node.Name, err)
	}
	annotate(node, key, string(text))
	return nil
}

func annotate(node *corev1.Node, key, value string) {
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[key] = value
}
