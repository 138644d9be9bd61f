package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ask sets reboot-needed.
func Ask(node *corev1.Node, request string) { annotate(node, Needed, request) }

// Allow moves reboot-needed to reboot-now.
func Allow(node *corev1.Node, g Grant) error {
	delete(node.Annotations, Needed)
	delete(node.Annotations, Permit) // One of an earlier reboot, which a person has removed.
	return set(node, Now, g)
}

// AllowNow answers the agent's question whether the machine may go down, and
// notes that among the recent reboots, of which it keeps those since the given
// time.
func AllowNow(node *corev1.Node, m Permission, at, since metav1.Time) error {
	recent := slices.DeleteFunc(Read(node).Recent, func(t Told) bool { return t.Epoch == m.Epoch || t.At.Before(&since) })
	if err := set(node, Recent, append(recent, Told{Epoch: m.Epoch, At: at})); err != nil {
		return err
	}
	return set(node, Permit, m)
}

// Forget removes an epoch from the recent reboots: its machine was not told to
// go down.
func Forget(node *corev1.Node, epoch int64) error {
	recent := Read(node).Recent
	left := slices.DeleteFunc(slices.Clone(recent), func(t Told) bool { return t.Epoch == epoch })
	if len(left) == len(recent) {
		return nil
	}
	return set(node, Recent, left)
}

// VoidEpoch bars the epoch, and those before it, from being granted.
func VoidEpoch(node *corev1.Node, epoch int64) {
	annotate(node, Void, strconv.FormatInt(epoch, 10))
}

// Revoke moves reboot-now back to reboot-needed and voids the epoch. A newer
// request stands.
func Revoke(node *corev1.Node, request string, epoch int64) {
	VoidEpoch(node, epoch)
	delete(node.Annotations, Now)
	if _, ok := node.Annotations[Needed]; !ok {
		annotate(node, Needed, request)
	}
}

// Accept moves reboot-now to reboot-in-progress and cordons the node;
// p.CordonedByAgent is set here.
func Accept(node *corev1.Node, p Progress) error {
	delete(node.Annotations, Now)
	p.CordonedByAgent = !node.Spec.Unschedulable
	node.Spec.Unschedulable = true
	return set(node, InProgress, p)
}

// Proceed replaces reboot-in-progress. A permission that was used goes with it.
func Proceed(node *corev1.Node, p Progress) error {
	if p.Asked != nil {
		delete(node.Annotations, Permit)
	}
	return set(node, InProgress, p)
}

// Decline moves reboot-now back to reboot-needed, and says why in last-reboot.
// A newer request stands.
func Decline(node *corev1.Node, o Outcome) error {
	delete(node.Annotations, Now)
	return CallOff(node, o, false)
}

// CallOff moves reboot-in-progress back to reboot-needed, says why in last-reboot,
// and uncordons the node if told so. A newer request stands.
func CallOff(node *corev1.Node, o Outcome, uncordon bool) error {
	if _, ok := node.Annotations[Needed]; !ok {
		annotate(node, Needed, o.Request.Request)
	}
	return Complete(node, o, uncordon)
}

// Complete moves reboot-in-progress to last-reboot, and uncordons the node if
// told so.
func Complete(node *corev1.Node, o Outcome, uncordon bool) error {
	delete(node.Annotations, InProgress)
	delete(node.Annotations, Permit)
	if uncordon {
		node.Spec.Unschedulable = false
	}
	return set(node, LastReboot, o)
}

// Restamp overwrites last-reboot.
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
