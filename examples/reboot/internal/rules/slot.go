package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// A SlotStep is the controller's next step for one slot.
type SlotStep string

// The steps for a slot.
const (
	// Wait means that there is no step to take yet, for the reason in Why of
	// the decision.
	Wait SlotStep = "wait"
	// Grant moves reboot-needed to reboot-now.
	Grant SlotStep = "grant"
	// Revoke moves reboot-now back to reboot-needed, and makes the epoch void.
	Revoke SlotStep = "revoke"
	// Void makes the epoch of a slot void before the controller has granted it.
	Void SlotStep = "void"
	// Rewrite replaces the slot with Next, for example for another request.
	Rewrite SlotStep = "rewrite"
	// Release removes the slot.
	Release SlotStep = "release"
	// Decline moves reboot-now back to reboot-needed, and writes the reason to
	// last-reboot.
	Decline SlotStep = "decline"
	// Permit lets the agent tell its machine to reboot.
	Permit SlotStep = "permit"
	// CallOff moves reboot-in-progress back to reboot-needed, and writes the
	// reason to last-reboot.
	CallOff SlotStep = "call off"
	// GiveUp is the same as CallOff, but for a machine that was told to reboot
	// and still reports the same boot. The request is not tried again.
	GiveUp SlotStep = "give up"
	// Conclude moves reboot-in-progress to last-reboot on behalf of an agent
	// that does not respond, although its node has rebooted.
	Conclude SlotStep = "conclude"
)

// A SlotDecision is the next step for a slot.
type SlotDecision struct {
	Step SlotStep
	// Next is the slot that replaces the old one if the step is Rewrite.
	Next api.Slot
	// NotBefore is when the request of a released slot may be tried again, if
	// its reboot was called off. Otherwise it is zero.
	NotBefore metav1.Time
	// Seconds is how long the permission is valid if the step is Permit.
	Seconds int32
	// After is the time after which ForSlot must be called again, even if
	// nothing has changed. 0 means that it need not be called before something
	// changes.
	After time.Duration
	// Why is the reason for the step, as a text for people.
	Why string
}

// A Situation is the input for the next step of a slot, besides the slot and
// its node.
type Situation struct {
	// Closed is why no reboot may start in the group. For example, the group is
	// paused, invalid or being deleted, or no window is open. Closed is empty
	// if a reboot may start.
	Closed string
	// Invalid is true if the group's spec has a mistake. In this case Shut is
	// false and WindowLeft is 0. Otherwise Shut is true if no maintenance
	// window is open, and WindowLeft is the time until the windows open or
	// close, or 0 if they never do so.
	Shut, Invalid bool
	WindowLeft    time.Duration
	// Stray is why the node no longer belongs to the group, or may not belong
	// to it; see [Membership.Stray]. It is empty if the node belongs to the
	// group. A reboot that has begun continues nevertheless.
	Stray string
	// Over is true if the group has more slots than its limit, because the
	// limit has become lower, and this slot is one of the slots to release.
	Over bool
	// Contended is true if other requests wait for a slot.
	Contended bool
	MinReady  time.Duration
	// Retry is how long a request waits after its reboot was called off.
	Retry      time.Duration
	MaxReboots api.MaxReboots
	// Now is the time by the controller's clock. No other clock is used.
	Now time.Time
}

// ForSlot returns the next step for slot. node is nil if it was not found.
func ForSlot(s Situation, slot api.Slot, node *corev1.Node) SlotDecision {
	if node == nil || node.UID != slot.NodeUID {
		return SlotDecision{Step: Release, Why: "the node was deleted"}
	}
	state := protocol.Read(node)
	if err := state.Fault(protocol.Now, protocol.InProgress, protocol.LastReboot, protocol.Void,
		protocol.Permit, protocol.Recent); err != nil {
		return SlotDecision{Step: Wait, Why: err.Error()}
	}
	barred := s.barred(slot, state)
	switch {
	case state.InProgress != nil:
		return s.accepted(slot, node, state)
	case state.Now != nil && barred == "" && state.Now.Epoch == slot.Epoch:
		return s.granted(slot)
	case state.Now != nil && !s.foreign(slot, state):
		return SlotDecision{Step: Revoke, Why: barred}
	case state.Last != nil && state.Last.Epoch >= slot.Epoch:
		return s.afterReboot(slot, node, state, barred)
	default:
		return s.beforeReboot(slot, node, state, barred)
	}
}

// foreign reports whether another group made the grant on a node that no longer
// belongs to this group. Such a grant has a later epoch than the slot, and the
// slot's own epoch is spent.
func (s Situation) foreign(slot api.Slot, state protocol.State) bool {
	return s.Stray != "" && state.Spent() >= slot.Epoch && state.Now.Epoch > slot.Epoch
}

// barred returns why no reboot may start on the node, or the empty string.
func (s Situation) barred(slot api.Slot, state protocol.State) string {
	epoch := slot.Epoch // the slot's own reboot does not count
	if state.Spent() >= epoch {
		epoch = 0
	}
	_, limited := tooOften(state.Recent, s.MaxReboots, epoch, s.Now)
	switch {
	case s.Closed != "":
		return s.Closed
	case s.Stray != "":
		return s.Stray
	case s.Over:
		return "the group has more slots than maxUnavailable allows"
	case state.Paused:
		return "the node is paused"
	case ended(state, protocol.Unproven):
		return "it is not tried again for this request"
	case limited != "":
		return limited
	default:
		return ""
	}
}

// afterReboot returns the next step for a slot whose epoch has ended, with or
// without a reboot.
func (s Situation) afterReboot(slot api.Slot, node *corev1.Node, state protocol.State, barred string) SlotDecision {
	if state.Last.Result != protocol.Rebooted {
		return s.unused(slot, node, state, state.Last.Result+": "+state.Last.Why)
	}
	d, returned := s.hasReturned(slot, node, state.Last)
	if repeat := state.Needed != nil && barred == ""; repeat && (!returned || !s.Contended) {
		slot.Verify = !returned
		return s.rewrite(slot, state, state.Spent()+1)
	}
	if !returned {
		return d
	}
	return SlotDecision{Step: Release, Why: "rebooted and Ready"}
}

// hasReturned reports whether the node has been back from the reboot for the
// time in MinReady. If it has not, hasReturned returns the step to take
// meanwhile. The time counts from the moment at which the controller first saw
// the node Ready.
func (s Situation) hasReturned(slot api.Slot, node *corev1.Node, o *protocol.Outcome) (SlotDecision, bool) {
	if reason := absence(node, o); reason != "" {
		return SlotDecision{Step: Wait, Why: reason}, false
	}
	if s.MinReady == 0 {
		return SlotDecision{}, true
	}
	readySince := stamp(readyCondition(node).LastTransitionTime.Time)
	stage := fmt.Sprintf("%s in boot %s since %s", StageReady, o.ToBootID, readySince)
	if d, marked := s.mark(slot, stage, nil); marked {
		return d, false
	}
	if left := slot.StageSince.Add(s.MinReady).Sub(s.Now); left > 0 {
		return SlotDecision{Step: Wait, After: left, Why: "not Ready long enough after its reboot"}, false
	}
	return SlotDecision{}, true
}

// beforeReboot returns the next step for a slot that was not granted yet, or
// was revoked. It does not release the slot before the epoch is void, because
// until then a late grant may still be written.
func (s Situation) beforeReboot(slot api.Slot, node *corev1.Node, state protocol.State, barred string) SlotDecision {
	if state.Needed == nil && barred == "" {
		barred = "the request was withdrawn"
	}
	void := state.Spent() >= slot.Epoch
	switch {
	case barred == "" && void:
		return s.rewrite(slot, state, state.Spent()+1)
	case barred == "" && slot.Request != *state.Needed:
		return s.rewrite(slot, state, slot.Epoch)
	case barred == "":
		return SlotDecision{Step: Grant, Why: "reserved"}
	case void:
		return s.unused(slot, node, state, barred)
	default:
		return SlotDecision{Step: Void, Why: barred}
	}
}

// unused returns the next step for a slot that will not be used. The slot is
// released. If it must verify the previous reboot, it is released only after
// the node is back from that reboot.
func (s Situation) unused(slot api.Slot, node *corev1.Node, state protocol.State, reason string) SlotDecision {
	if slot.Verify && state.Last != nil {
		if d, returned := s.hasReturned(slot, node, state.Last); !returned {
			d.Why = reason + "; " + d.Why
			return d
		}
	}
	d := SlotDecision{Step: Release, Why: reason}
	if ended(state, protocol.CalledOff) {
		d.NotBefore = metav1.Time{Time: s.noted().Add(s.Retry)}
	}
	return d
}

// rewrite returns the step that changes the slot to the node's current request,
// with the given epoch.
func (s Situation) rewrite(slot api.Slot, state protocol.State, epoch int64) SlotDecision {
	slot.Request, slot.Epoch = *state.Needed, epoch
	slot.Since.Time = s.Now
	slot.Stage, slot.StageSince = "", metav1.Time{}
	return SlotDecision{Step: Rewrite, Next: slot, Why: "needed again"}
}
