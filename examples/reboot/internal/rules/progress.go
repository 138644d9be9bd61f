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
	StageTold     = "told"    // the machine was told to reboot
	StageOverdue  = "overdue" // the machine was told at least SettleTime ago, and the reports about its node may be old
	StageReady    = "ready"   // the node became Ready; the boot ID and the time follow the word
)

const (
	// AcceptTimeout is how long an agent may take to accept.
	AcceptTimeout = 3 * time.Minute
	// AnswerTimeout is how long a node may be Ready with the same boot after
	// its machine was told to reboot. After that the controller gives the
	// reboot up; see [GiveUp]. It waits longer for a node that is not Ready.
	AnswerTimeout = 10 * time.Minute
	// SettleTime is half of AnswerTimeout. After the first half the controller
	// records that the machine is overdue, and then waits once more, because
	// the reports about its node may be old. For example, the API server and
	// the controller were away for an hour while a machine was down: its node
	// still counts as Ready when they are back, until the cluster has noticed
	// that its kubelet is silent.
	SettleTime = AnswerTimeout / 2
	// permitTime is how long a permission is valid, unless a window closes
	// earlier. It is long enough for the agent to see and use the permission.
	permitTime = time.Minute
)

// mark returns the step that records the stage, and the agent's beat, in the
// ledger. It returns false if the ledger is up to date. While the stage stays
// the same, a new beat is recorded once a quarter of p.Silence() has passed
// since the last one was recorded. If the recorded stage begins in the future,
// a controller with a different clock has recorded it, and mark records it
// again.
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

// noted returns the current time in whole seconds, as the ledger stores it.
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
		"its agent has not accepted within %v: check its Pod of the DaemonSet reboot-agent", AcceptTimeout)}
}

// accepted returns the next step for a reboot in progress. The controller may
// call the reboot off as long as the machine has not been told to go down. A
// step that changes the node comes before the step that records the stage: if
// the server refuses to write the ledger, a node that is drained and cordoned
// still reboots, and is uncordoned.
func (s Situation) accepted(slot api.Slot, node *corev1.Node, state protocol.State) SlotDecision {
	p, stage := state.InProgress, StageDraining
	switch {
	case p.MayGoDown():
		return s.told(slot, node, p)
	case p.Drained:
		stage = StageDrained
	}
	if s.Shut {
		return SlotDecision{Step: CallOff, Why: "the maintenance window closed before the machine was told to reboot"}
	}
	record, due := s.mark(slot, stage, p)
	if due {
		slot = record.Next
	}
	recheck, reason := s.deadline(slot, p, state.Permitted(p.Epoch))
	switch {
	case reason != "":
		return SlotDecision{Step: CallOff, Why: reason}
	case p.Drained && p.Waits && !s.Invalid && !state.Permit.Answers(p):
		return SlotDecision{Step: Permit, Seconds: s.permitSeconds(), Why: "drained"}
	case due:
		return record
	default:
		return SlotDecision{Step: Wait, After: recheck, Why: progress(p)}
	}
}

// permitSeconds returns how many seconds a permission is valid: permitTime, or
// less if the maintenance window closes sooner.
func (s Situation) permitSeconds() int32 {
	if s.WindowLeft > 0 && s.WindowLeft < permitTime {
		return max(1, int32(s.WindowLeft/time.Second))
	}
	return int32(permitTime / time.Second)
}

// deadline returns why the reboot must be called off now. If no deadline has
// passed, reason is empty, and recheck is the time until the next deadline or,
// if that is sooner, until the agent's beat is to be recorded. It is 0 if there
// is neither. permitted is when the reboot was first permitted, or zero.
func (s Situation) deadline(
	slot api.Slot, p *protocol.Progress, permitted time.Time,
) (recheck time.Duration, reason string) {
	for _, d := range deadlines(slot, p, permitted) {
		left := d.start.Add(d.limit).Sub(s.Now)
		if left <= 0 {
			return 0, fmt.Sprintf(d.format, d.limit) + withReason(d.details)
		}
		recheck = Sooner(recheck, left)
	}
	if beat := slot.HeardAt.Add(p.Silence() / 4).Sub(s.Now); p.Beat != slot.Beat && beat > 0 {
		recheck = Sooner(recheck, beat)
	}
	return recheck, ""
}

type deadline struct {
	start   time.Time
	limit   time.Duration
	format  string // the format of the reason, whose argument is the limit
	details string // details to append to the reason
}

// deadlines returns the deadlines of a reboot that may be called off. A machine
// that refuses is permitted and told to reboot again and again, and each
// refusal begins a new stage in the ledger. So the time of a drained node
// counts from the first permission, and not from the stage.
func deadlines(slot api.Slot, p *protocol.Progress, permitted time.Time) []deadline {
	timeout, start, left := p.DrainTimeout(), slot.StageSince.Time, cmp.Or(p.Left, p.Blocked)
	var deadlines []deadline
	switch {
	case p.Policy == protocol.PolicyWait:
	case p.Drained:
		cause := cmp.Or(p.Refused, "its agent has not answered")
		if p.Try > 1 && !permitted.IsZero() && permitted.Before(start) {
			start = permitted
		}
		deadlines = append(deadlines, deadline{start, timeout, "the machine has not begun to reboot within %v", cause})
	case p.Policy == protocol.PolicyForce: // The agent measures the time itself, and begins again after a restart.
		limit := 2*timeout + AcceptTimeout
		deadlines = append(deadlines,
			deadline{start, limit, "the drain is not over after %v, although the policy is force", left})
	default:
		deadlines = append(deadlines, deadline{start, timeout, "the drain did not finish within %v", left})
	}
	if p.Start != "" { // Agents of an older release send no beats.
		deadlines = append(deadlines, deadline{slot.HeardAt.Time, p.Silence(), "its agent has not been heard from for " +
			"%v", ""})
	}
	return deadlines
}

// told returns the next step for a machine that was told to reboot and may be
// down. If the node is Ready long afterwards, told relies on the kubelet's
// report, even if the agent is silent. The report must still be there
// SettleTime after the ledger says that the machine is overdue.
func (s Situation) told(slot api.Slot, node *corev1.Node, p *protocol.Progress) SlotDecision {
	stage := StageTold
	if slot.Stage == StageOverdue || slot.Stage == StageTold && !s.Now.Before(slot.StageSince.Add(SettleTime)) {
		stage = StageOverdue
	}
	if d, marked := s.mark(slot, stage, nil); marked {
		return d
	}
	ready, boot := readyCondition(node), node.Status.NodeInfo.BootID
	switch left := slot.StageSince.Add(SettleTime).Sub(s.Now); {
	case left > 0:
		return SlotDecision{Step: Wait, After: left, Why: progress(p)}
	case ready == nil || ready.Status != corev1.ConditionTrue:
		return SlotDecision{Step: Wait, Why: "not Ready since its machine was told to reboot"}
	case boot != "" && boot != p.BootID:
		return SlotDecision{Step: Conclude, Why: "its kubelet reports another boot, and its agent does not answer"}
	case boot == p.BootID && p.Start != "":
		return SlotDecision{Step: GiveUp, Why: fmt.Sprintf("its machine was told to reboot at %s, and still reports boot %s "+
			"after %v: it has not rebooted, and may still do it, or does not change its boot id when it does",
			stamp(p.Asked.At.Time), boot, AnswerTimeout)}
	default:
		return SlotDecision{Step: Wait, Why: progress(p)}
	}
}

// progress describes the progress of a reboot that an agent has accepted.
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
