package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"

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
)

// A SlotDecision is the next step about a slot.
type SlotDecision struct {
	Step SlotStep
	// Next is the new entry for Rewrite.
	Next api.Slot
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
	// Stray says why the node is no longer the group's: its labels or the selectors
	// have changed. Empty means that it is. A begun reboot continues.
	Stray string
	// Over says that the slot is one too many since the limit was lowered.
	Over bool
	// Contended says that other requests wait for a slot.
	Contended bool
	MinReady  time.Duration
	// Retry is how long a request waits after it was called off.
	Retry time.Duration
	Now   time.Time
}

// ForSlot returns the next step about slot. The node is nil when it was not found.
func ForSlot(s Situation, slot api.Slot, node *corev1.Node) SlotDecision {
	if node == nil || node.UID != slot.NodeUID {
		return SlotDecision{Step: Release, Why: "the node was deleted"}
	}
	state := protocol.Read(node)
	if err := state.Fault(protocol.Now, protocol.InProgress, protocol.LastReboot, protocol.Void); err != nil {
		return SlotDecision{Step: Wait, Why: err.Error()}
	}
	barred := s.barred(state)
	switch {
	case state.InProgress != nil:
		return SlotDecision{Step: Wait, Why: progress(state.InProgress)}
	case state.Now != nil && barred == "" && state.Now.Epoch == slot.Epoch:
		return SlotDecision{Step: Wait, Why: "granted; its agent has not accepted yet"}
	case state.Now != nil && !s.foreign(slot, state):
		return SlotDecision{Step: Revoke, Why: barred}
	case state.Last != nil && state.Last.Epoch >= slot.Epoch:
		return s.afterReboot(slot, node, state, barred)
	default:
		return s.beforeReboot(slot, node, state, barred)
	}
}

// foreign reports whether the grant of a stray node belongs to another group: the slot
// cannot be granted any longer, and the grant is of a later epoch.
func (s Situation) foreign(slot api.Slot, state protocol.State) bool {
	return s.Stray != "" && state.Spent() >= slot.Epoch && state.Now.Epoch > slot.Epoch
}

// barred says why no reboot may start on the node, or "".
func (s Situation) barred(state protocol.State) string {
	switch {
	case s.Closed != "":
		return s.Closed
	case s.Stray != "":
		return s.Stray
	case s.Over:
		return "maxUnavailable was lowered"
	case state.Paused:
		return "the node is paused"
	default:
		return ""
	}
}

// afterReboot is about a slot whose reboot is done.
func (s Situation) afterReboot(slot api.Slot, node *corev1.Node, state protocol.State, barred string) SlotDecision {
	wait, why := verified(node, state.Last, s.MinReady, s.Now)
	again := state.Needed != nil && barred == "" && backoff(state, s.Retry, s.Now) == 0
	if again && (why != "" || !s.Contended) {
		slot.Verify = why != ""
		return s.rewrite(slot, state, state.Spent()+1)
	}
	if why != "" {
		return SlotDecision{Step: Wait, After: wait, Why: why}
	}
	return SlotDecision{Step: Release, Why: "rebooted and Ready"}
}

// progress says how far a reboot is.
func progress(p *protocol.Progress) string {
	switch {
	case p.Drained:
		return "rebooting"
	case p.Blocked != "":
		return "its drain is blocked: " + p.Blocked
	default:
		return "draining"
	}
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
func (s Situation) unused(slot api.Slot, node *corev1.Node, state protocol.State, barred string) SlotDecision {
	if slot.Verify && state.Last != nil {
		if wait, why := verified(node, state.Last, s.MinReady, s.Now); why != "" {
			return SlotDecision{Step: Wait, After: wait, Why: barred + "; " + why}
		}
	}
	return SlotDecision{Step: Release, Why: barred}
}

// rewrite makes the slot one for the request that the node has now.
func (s Situation) rewrite(slot api.Slot, state protocol.State, epoch int64) SlotDecision {
	slot.Request, slot.Epoch = *state.Needed, epoch
	slot.Since.Time = s.Now
	return SlotDecision{Step: Rewrite, Next: slot, Why: "needed again"}
}
