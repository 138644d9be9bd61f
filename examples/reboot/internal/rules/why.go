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
	StateIdle      = "Idle" // never rebooted by the operator
	StateRequested = "Requested"
	StateReserved  = "Reserved"
	StateGranted   = "Granted"
	StateDraining  = "Draining"
	StateBlocked   = "DrainBlocked"
	StateRebooting = "Rebooting"
	StateVerifying = "Verifying"
	StateDone      = "Done"
	StateCalledOff = "CalledOff" // and not asked for since
	StateFaulty    = "Unreadable"
)

// StateOf returns the state of a node whose group is that; nil if none has it.
func StateOf(node *corev1.Node, group *api.RebootGroup) string {
	s := protocol.Read(node)
	held := group != nil && Holds(group.Status.Slots, node.Name)
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
	case s.Needed != nil && held:
		return StateReserved
	case s.Needed != nil:
		return StateRequested
	case held:
		return StateVerifying
	case s.Last == nil:
		return StateIdle
	case s.Last.Result == protocol.CalledOff:
		return StateCalledOff
	default:
		return StateDone
	}
}

// Why explains where a node is on its way to a reboot, and what holds it up: a line for
// each fact.
func Why(node *corev1.Node, group *api.RebootGroup) []string {
	s := protocol.Read(node)
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, fault := range s.Faults {
		say("%v", fault)
	}
	if group == nil {
		say("no RebootGroup has node %s yet: the controller makes the group %s when a reboot is asked for",
			node.Name, api.DefaultName)
	}
	switch p := s.InProgress; {
	case p != nil && p.Drained:
		say("the node is drained, and its machine was told to reboot: it still runs boot %s, "+
			"or its agent has not said otherwise", p.BootID)
	case p != nil:
		say("draining since %s, %s", stamp(p.AcceptedAt.Time), patience(p))
		if p.Blocked != "" {
			say("evictions are refused: %s", p.Blocked)
		}
	case s.Now != nil:
		say("granted for request %q, and its agent has not accepted: does its Pod of the DaemonSet reboot-agent run?",
			s.Now.Request.Request)
	case s.Needed != nil:
		lines = append(lines, waits(node, s, group)...)
	default:
		say("no reboot is asked for: kubectl reboot request %s", node.Name)
	}
	if s.Last != nil {
		say("last: %s at %s for request %q%s",
			s.Last.Result, stamp(s.Last.At.Time), s.Last.Request.Request, because(s.Last.Why))
	}
	if group != nil && s.Needed == nil && s.Now == nil && s.InProgress == nil && Holds(group.Status.Slots, node.Name) {
		say("it keeps its slot of RebootGroup %s until it is Ready, and its kubelet reports the new boot", group.Name)
	}
	return lines
}

// waits is about a node that asks and is not granted.
func waits(node *corev1.Node, s protocol.State, group *api.RebootGroup) []string {
	lines := []string{fmt.Sprintf("a reboot is requested: %q", *s.Needed)}
	if s.Paused {
		lines = append(lines, "the node is paused: kubectl reboot resume "+node.Name)
	}
	if group == nil {
		return lines
	}
	if Holds(group.Status.Slots, node.Name) {
		return append(lines, fmt.Sprintf("RebootGroup %s has reserved a slot for it, and grants it next", group.Name))
	}
	place := slices.IndexFunc(group.Status.Queue, func(w api.Waiting) bool { return w.Node == node.Name })
	if place < 0 {
		return append(lines, fmt.Sprintf("RebootGroup %s has not queued it yet: does the controller run?", group.Name))
	}
	lines = append(lines, fmt.Sprintf("number %d of %d in the queue of RebootGroup %s",
		place+1, len(group.Status.Queue), group.Name))
	if c := meta.FindStatusCondition(group.Status.Conditions, ConditionWaiting); c != nil {
		lines = append(lines, fmt.Sprintf("the group waits (%s): %s", c.Reason, c.Message))
	}
	return lines
}

// patience says how long a drain goes on.
func patience(p *protocol.Progress) string {
	until := stamp(p.AcceptedAt.Add(p.DrainTimeout()))
	switch p.Policy {
	case protocol.PolicyWait:
		return "until the last Pod has left"
	case protocol.PolicyForce:
		return "and rebooted with what is left at " + until
	default:
		return "and called off at " + until
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
