package rules

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// The states of a node, for people.
const (
	StateIdle      = "Idle" // the operator has never rebooted it
	StateRequested = "Requested"
	StateOverlap   = "Overlap" // requested, and several groups select it
	StateReserved  = "Reserved"
	StateGranted   = "Granted"
	StateDraining  = "Draining"
	StateBlocked   = "DrainBlocked"
	StateRebooting = "Rebooting"
	StateVerifying = "Verifying"
	StateDone      = "Done"
	StateCalledOff = "CalledOff" // the last reboot was called off or unproven, and none is requested now
	StateFaulty    = "Unreadable"
)

// A Place describes the relation of a node to the groups.
type Place struct {
	// Group is the group that has a slot for the node, otherwise the group that
	// selects it, otherwise nil.
	Group *api.RebootGroup
	// Held is true if Group has a slot for the node.
	Held bool
	// Rivals are the groups that select the node, if there are several.
	Rivals []string
	// Doubt is why it is not certain that the node belongs to Group, or empty.
	Doubt string
}

// PlaceOf returns the relation of a node to all groups. unclear are the names of
// groups whose selectors or slots cannot be read, as for [NewMembership].
func PlaceOf(node *corev1.Node, groups []*api.RebootGroup, unclear ...string) Place {
	membership := NewMembership(groups, unclear...)
	name, rivals := membership.Group(node)
	if g := HolderOf(node, groups); g != nil {
		return Place{Group: g, Held: true, Rivals: rivals}
	}
	for _, g := range groups {
		if g.Name == name {
			return Place{Group: g, Doubt: membership.Doubt(name)}
		}
	}
	return Place{Rivals: rivals}
}

// StateOf returns the state of a node, which is one of the constants such as
// [StateIdle]. place is the node's relation to the groups.
func StateOf(node *corev1.Node, place Place) string {
	s := protocol.Read(node)
	switch {
	case s.Fault() != nil:
		return StateFaulty
	case s.InProgress != nil && s.InProgress.Drained:
		return StateRebooting
	case s.InProgress != nil && s.InProgress.Blocked != "":
		return StateBlocked
	case s.InProgress != nil:
		return StateDraining
	case s.Now != nil:
		return StateGranted
	case s.Needed != nil && len(place.Rivals) > 0:
		return StateOverlap
	case s.Needed != nil && place.Held:
		return StateReserved
	case s.Needed != nil:
		return StateRequested
	case place.Held:
		return StateVerifying
	case s.Last == nil:
		return StateIdle
	case s.Last.Result != protocol.Rebooted:
		return StateCalledOff
	default:
		return StateDone
	}
}

// Why describes the progress of a node's reboot, or explains why the reboot
// waits. It returns a line for each fact.
func Why(node *corev1.Node, place Place, now time.Time) []string {
	s, group := protocol.Read(node), place.Group
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, fault := range s.Faults {
		say("%v", fault)
	}
	switch {
	case len(place.Rivals) > 0:
		say("%s: narrow a nodeSelector, or change the labels of the node", Contested(place.Rivals))
	case group == nil:
		say("no RebootGroup has node %s yet: the controller creates the group %s when a reboot is requested",
			node.Name, api.DefaultName)
	}
	switch p := s.InProgress; {
	case p != nil && p.MayGoDown():
		say("the node is drained, and its machine was told to reboot: it still runs boot %s, "+
			"or its agent has not reported the new boot yet", p.BootID)
	case p != nil && p.Drained:
		say("the node is drained, and its machine has not been told to reboot yet%s", withReason(p.Refused))
	case p != nil:
		say("draining since %s, %s", stamp(p.AcceptedAt.Time), patience(p))
		if p.Blocked != "" {
			say("evictions are refused: %s", p.Blocked)
		}
	case s.Now != nil:
		say("granted for request %q, and its agent has not accepted: check its Pod of the DaemonSet reboot-agent",
			s.Now.Request.Request)
	case s.Needed != nil:
		lines = append(lines, waits(node, s, place, now)...)
	default:
		say("no reboot is requested; to request one: kubectl reboot request %s", node.Name)
	}
	if s.Last != nil {
		say("last: %s at %s for request %q%s",
			s.Last.Result, stamp(s.Last.At.Time), s.Last.Request.Request, withReason(s.Last.Why))
	}
	if place.Held && s.Needed == nil && s.Now == nil && s.InProgress == nil {
		say("it keeps its slot of RebootGroup %s until it is Ready, and its kubelet reports the new boot", group.Name)
	}
	return lines
}

// waits explains why a node's request has not been granted.
func waits(node *corev1.Node, s protocol.State, place Place, now time.Time) []string {
	lines, group := []string{fmt.Sprintf("a reboot is requested: %q", *s.Needed)}, place.Group
	if group == nil {
		return lines
	}
	held := HeldBack(node, entryOf(node, group), place.Doubt, group.Spec.MaxReboots, now).Why
	switch {
	case held == "":
	case s.Paused:
		lines = append(lines, "the node is paused: kubectl reboot resume "+node.Name)
	default:
		lines = append(lines, held)
	}
	if place.Held && len(place.Rivals) > 0 {
		return append(lines, fmt.Sprintf("RebootGroup %s releases the slot that it has reserved for the node", group.Name))
	}
	if place.Held {
		return append(lines,
			fmt.Sprintf("RebootGroup %s has reserved a slot for the node, and grants the reboot next", group.Name))
	}
	return append(lines, queues(node, group, held == "")...)
}

// entryOf returns the node's entry in the group's queue, or the zero value if
// the node is not in the queue.
func entryOf(node *corev1.Node, group *api.RebootGroup) api.Waiting {
	for _, w := range group.Status.Queue {
		if w.NodeUID == node.UID {
			return w
		}
	}
	return api.Waiting{}
}

// queues describes the position of a node in its group's queue. free is true if
// the node waits for nothing but a free slot.
func queues(node *corev1.Node, group *api.RebootGroup, free bool) []string {
	queue := group.Status.Queue
	place := slices.IndexFunc(queue, func(w api.Waiting) bool { return w.Node == node.Name })
	if place < 0 {
		return []string{fmt.Sprintf("RebootGroup %s has not queued it yet: check that the controller runs", group.Name)}
	}
	lines := []string{fmt.Sprintf("number %d of %d in the queue of RebootGroup %s", place+1, len(queue), group.Name)}
	c := meta.FindStatusCondition(group.Status.Conditions, ConditionWaiting)
	if c == nil || c.Reason == ReasonNodes && free {
		return lines
	}
	return append(lines, fmt.Sprintf("the group waits (%s): %s", c.Reason, c.Message))
}

// patience returns a text that says how long a drain may take.
func patience(p *protocol.Progress) string {
	switch p.Policy {
	case protocol.PolicyWait:
		return "until the last Pod has left"
	case protocol.PolicyForce:
		return fmt.Sprintf("and rebooted after %v even if Pods are left", p.DrainTimeout())
	default:
		return fmt.Sprintf("and called off after %v", p.DrainTimeout())
	}
}

// withReason returns the reason after a colon, or "" if there is no reason.
func withReason(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
