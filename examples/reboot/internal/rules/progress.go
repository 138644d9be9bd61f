package rules

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// The stages of a slot. Deadlines count from the moment at which the controller
// first saw the stage.
const (
	StageGranted  = "granted"
	StageDraining = "draining"
	StageDrained  = "drained"
	StageTold     = "told"  // the machine was told to reboot
	StageReady    = "ready" // the node became Ready; followed by its boot and the time
)

const (
	// AcceptTimeout is how long an agent may take to accept.
	AcceptTimeout = 3 * time.Minute
	// AnswerTimeout is how long a machine that was told to reboot may report
	// the same boot. After that it counts as not rebooting.
	AnswerTimeout = 10 * time.Minute
	// permitTime is the longest validity of a permission. The agent can see and
	// use it in that time.
	permitTime = time.Minute
)

// mark returns the step by which the ledger records the stage, or false if it
// has done so. A stage that begins in the future was recorded by a different
// clock, and is recorded again.
func (s Situation) mark(slot api.Slot, stage string, p *protocol.Progress) (SlotDecision, bool) {
	heard := slot
	if p != nil && p.Beat != slot.Beat && s.Now.Sub(slot.HeardAt.Time) >= p.Silence()/4 {
		heard.Beat, heard.HeardAt = p.Beat, s.noted()
	}
	if slot.Stage != stage || slot.StageSince.After(s.Now) {
		heard.Stage, heard.StageSince = stage, s.noted()
		if p != nil {
			heard.Beat, heard.HeardAt = p.Beat, s.noted()
		}
	}
	if heard == slot {
		return SlotDecision{}, false
	}
	return SlotDecision{Step: Rewrite, Next: heard, Why: stage}, true
}

// noted returns the time with the precision of the ledger.
func (s Situation) noted() metav1.Time { return metav1.Time{Time: s.Now.Truncate(time.Second)} }

// granted returns the next step for a grant that the agent has not accepted
// yet.
func (s Situation) granted(slot api.Slot) SlotDecision {
	if d, marked := s.mark(slot, StageGranted, nil); marked {
		return d
	}
	if left := slot.StageSince.Add(AcceptTimeout).Sub(s.Now); left > 0 {
		return SlotDecision{Step: Wait, After: left, Why: "granted; its agent has not accepted yet"}
	}
	return SlotDecision{Step: Decline, Why: fmt.Sprintf(
		"its agent has not accepted within %v: does its Pod of the DaemonSet reboot-agent run?", AcceptTimeout)}
}

// accepted returns the next step for a reboot in progress. The controller may
// call it off until the machine is told to go down.
func (s Situation) accepted(slot api.Slot, node *corev1.Node, state protocol.State) SlotDecision {
	p, stage := state.InProgress, StageDraining
	switch {
	case p.MayGoDown():
		return s.told(slot, node, p)
	case p.Drained:
		stage = StageDrained
	}
	if d, marked := s.mark(slot, stage, p); marked {
		return d
	}
	if s.Shut {
		return SlotDecision{Step: CallOff, Why: "the maintenance window has closed before the machine was told to reboot"}
	}
	after, why := s.deadline(slot, p)
	switch {
	case why != "":
		return SlotDecision{Step: CallOff, Why: why}
	case p.Drained && p.Waits && !s.Invalid && !state.Permit.Answers(p):
		return SlotDecision{Step: Permit, Seconds: s.permitSeconds(), Why: "drained"}
	default:
		return SlotDecision{Step: Wait, After: after, Why: progress(p)}
	}
}

// permitSeconds returns the validity of a permission: permitTime, or less if
// the maintenance window closes sooner.
func (s Situation) permitSeconds() int32 {
	if s.WindowLeft > 0 && s.WindowLeft < permitTime {
		return max(1, int32(s.WindowLeft/time.Second))
	}
	return int32(permitTime / time.Second)
}

// deadline returns why the reboot must be called off, or how long it may still
// take.
func (s Situation) deadline(slot api.Slot, p *protocol.Progress) (after time.Duration, why string) {
	for _, d := range deadlines(slot, p) {
		left := d.from.Add(d.limit).Sub(s.Now)
		if left <= 0 {
			return 0, fmt.Sprintf(d.why, d.limit) + because(d.more)
		}
		after = Sooner(after, left)
	}
	if beat := slot.HeardAt.Add(p.Silence() / 4).Sub(s.Now); p.Beat != slot.Beat && beat > 0 {
		after = Sooner(after, beat)
	}
	return after, ""
}

type deadline struct {
	from  time.Time
	limit time.Duration
	why   string // a format for the limit
	more  string // details to append
}

// deadlines returns the deadlines of a reboot that may be called off.
func deadlines(slot api.Slot, p *protocol.Progress) []deadline {
	timeout, since, left := p.DrainTimeout(), slot.StageSince.Time, cmp.Or(p.Left, p.Blocked)
	var all []deadline
	switch {
	case p.Policy == protocol.PolicyWait:
	case p.Drained:
		why := cmp.Or(p.Refused, "its agent has not answered")
		all = append(all, deadline{since, timeout, "the machine has not been told to reboot within %v", why})
	case p.Policy == protocol.PolicyForce: // The agent measures the time itself, from its start.
		limit := 2*timeout + AcceptTimeout
		all = append(all, deadline{since, limit, "the drain is not over after %v, although the policy is force", left})
	default:
		all = append(all, deadline{since, timeout, "the drain has taken longer than %v", left})
	}
	if p.Start != "" { // Agents of an older release send no beats.
		all = append(all, deadline{slot.HeardAt.Time, p.Silence(), "its agent has not been heard of for %v", ""})
	}
	return all
}

// told returns the next step for a machine that may go down at any time, or has
// gone down. If its node is Ready long afterwards, the kubelet's report counts
// although the agent is silent.
func (s Situation) told(slot api.Slot, node *corev1.Node, p *protocol.Progress) SlotDecision {
	if d, marked := s.mark(slot, StageTold, nil); marked {
		return d
	}
	ready, boot := readyCondition(node), node.Status.NodeInfo.BootID
	switch after := slot.StageSince.Add(AnswerTimeout).Sub(s.Now); {
	case after > 0:
		return SlotDecision{Step: Wait, After: after, Why: progress(p)}
	case ready == nil || ready.Status != corev1.ConditionTrue:
		return SlotDecision{Step: Wait, Why: "not Ready since its machine was told to reboot"}
	case boot != "" && boot != p.BootID:
		return SlotDecision{Step: Conclude, Why: "its kubelet reports another boot, and its agent does not answer"}
	case boot == p.BootID && p.Start != "":
		return SlotDecision{Step: GiveUp, Why: fmt.Sprintf("its machine was told to reboot at %s, and still reports boot %s "+
			"after %v: it has not rebooted, or does not change its boot id when it does",
			stamp(p.Asked.At.Time), boot, AnswerTimeout)}
	default:
		return SlotDecision{Step: Wait, Why: progress(p)}
	}
}

// progress describes how far a reboot is.
func progress(p *protocol.Progress) string {
	switch {
	case p.MayGoDown():
		return "rebooting"
	case p.Refused != "":
		return "its machine refuses to reboot: " + p.Refused
	case p.Drained:
		return "drained"
	case p.Blocked != "":
		return "its drain is blocked: " + p.Blocked
	default:
		return "draining"
	}
}
