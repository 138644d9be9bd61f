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

// The steps about a slot.
const (
	// Wait: nothing to do; Why is the reason.
	Wait SlotStep = "wait"
	// Grant: reboot-needed becomes reboot-now.
	Grant SlotStep = "grant"
	// Revoke: reboot-now becomes reboot-needed, and the epoch void.
	Revoke SlotStep = "revoke"
	// Void: the epoch of a slot that was not granted becomes void.
	Void SlotStep = "void"
	// Rewrite: the slot becomes Next, for another request or epoch.
	Rewrite SlotStep = "rewrite"
	// Release: the slot is removed.
	Release SlotStep = "release"
	// Decline: reboot-now becomes reboot-needed, and last-reboot says why.
	Decline SlotStep = "decline"
	// Permit: the agent may tell its machine to reboot.
	Permit SlotStep = "permit"
	// CallOff: in-progress becomes reboot-needed, and last-reboot says why.
	CallOff SlotStep = "call off"
	// GiveUp: the same about a machine that was told to reboot, and reports the
	// same boot.
	GiveUp SlotStep = "give up"
	// Conclude: in-progress becomes last-reboot, as the agent does not do it.
	Conclude SlotStep = "conclude"
)

// A SlotDecision is the next step about a slot.
type SlotDecision struct {
	Step SlotStep
	// Next is the new entry for Rewrite.
	Next api.Slot
	// NotBefore is when the request of a slot that is released may be tried again.
	NotBefore metav1.Time
	// Seconds is how long a permission is valid.
	Seconds int32
	// After is when to look again although nothing has changed.
	After time.Duration
	// Why is for a person.
	Why string
}

// A Situation is the input of a slot's next step besides slot and node.
type Situation struct {
	// Closed says why nothing may start in the group: it is paused, invalid,
	// being deleted, outside its windows. Empty means that it may.
	Closed string
	// Shut says that no maintenance window is open, as far as the spec can be
	// read, and Invalid that it cannot. WindowLeft is how long one will still
	// be open; 0 is forever.
	Shut, Invalid bool
	WindowLeft    time.Duration
	// Stray says why the node is no longer the group's: its labels or the selectors
	// have changed. Empty means that it is. A begun reboot continues.
	Stray string
	// Over says that the slot is one too many since the limit was lowered.
	Over bool
	// Contended says that other requests wait for a slot.
	Contended bool
	MinReady  time.Duration
	// Retry is how long a request waits after it was called off.
	Retry      time.Duration
	MaxReboots api.MaxReboots
	// Now is the time by the controller's clock, the only one that is asked.
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

// foreign reports whether the grant of a stray node belongs to another group:
// the slot cannot be granted any longer, and the grant is of a later epoch.
func (s Situation) foreign(slot api.Slot, state protocol.State) bool {
	return s.Stray != "" && state.Spent() >= slot.Epoch && state.Now.Epoch > slot.Epoch
}

// barred says why no reboot may start on the node, or "".
func (s Situation) barred(slot api.Slot, state protocol.State) string {
	epoch := slot.Epoch // does not count against itself
	if state.Spent() >= epoch {
		epoch = 0
	}
	_, often := tooOften(state.Recent, s.MaxReboots, epoch, s.Now)
	switch {
	case s.Closed != "":
		return s.Closed
	case s.Stray != "":
		return s.Stray
	case s.Over:
		return "maxUnavailable was lowered"
	case state.Paused:
		return "the node is paused"
	case ended(state, protocol.Unproven):
		return "it is not tried again for this request"
	case often != "":
		return often
	default:
		return ""
	}
}

// afterReboot is about a slot whose epoch has ended, by a reboot or without one.
func (s Situation) afterReboot(slot api.Slot, node *corev1.Node, state protocol.State, barred string) SlotDecision {
	if state.Last.Result != protocol.Rebooted {
		return s.unused(slot, node, state, state.Last.Result+": "+state.Last.Why)
	}
	d, back := s.back(slot, node, state.Last)
	if again := state.Needed != nil && barred == ""; again && (!back || !s.Contended) {
		slot.Verify = !back
		return s.rewrite(slot, state, state.Spent()+1)
	}
	if !back {
		return d
	}
	return SlotDecision{Step: Release, Why: "rebooted and Ready"}
}

// back reports whether the node has been back after the reboot for long enough;
// if not, it returns what to do meanwhile. The time counts from when the
// controller saw it.
func (s Situation) back(slot api.Slot, node *corev1.Node, o *protocol.Outcome) (SlotDecision, bool) {
	if why := away(node, o); why != "" {
		return SlotDecision{Step: Wait, Why: why}, false
	}
	if s.MinReady == 0 {
		return SlotDecision{}, true
	}
	since := stamp(readyCondition(node).LastTransitionTime.Time)
	stage := fmt.Sprintf("%s in boot %s since %s", StageReady, o.ToBootID, since)
	if d, marked := s.mark(slot, stage, nil); marked {
		return d, false
	}
	if left := slot.StageSince.Add(s.MinReady).Sub(s.Now); left > 0 {
		return SlotDecision{Step: Wait, After: left, Why: "not Ready long enough after its reboot"}, false
	}
	return SlotDecision{}, true
}

// beforeReboot is about a slot that has not been used: it was not granted yet, or
// was revoked. A grant of its epoch may be on its way until the epoch is void.
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

// unused releases a slot, once its node is back from the reboot before.
func (s Situation) unused(slot api.Slot, node *corev1.Node, state protocol.State, why string) SlotDecision {
	if slot.Verify && state.Last != nil {
		if d, back := s.back(slot, node, state.Last); !back {
			d.Why = why + "; " + d.Why
			return d
		}
	}
	d := SlotDecision{Step: Release, Why: why}
	if ended(state, protocol.CalledOff) {
		d.NotBefore = metav1.Time{Time: s.noted().Add(s.Retry)}
	}
	return d
}

// rewrite makes the slot one for the request that the node has now.
func (s Situation) rewrite(slot api.Slot, state protocol.State, epoch int64) SlotDecision {
	slot.Request, slot.Epoch = *state.Needed, epoch
	slot.Since.Time = s.Now
	slot.Stage, slot.StageSince = "", metav1.Time{}
	return SlotDecision{Step: Rewrite, Next: slot, Why: "needed again"}
}
