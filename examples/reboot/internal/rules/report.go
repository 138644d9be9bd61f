package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// The types of a group's conditions.
const (
	ConditionValid    = "Valid"    // the spec can be obeyed
	ConditionWaiting  = "Waiting"  // requests wait; reason and message explain why
	ConditionStuck    = "Stuck"    // a slot is held for too long
	ConditionReadable = "Readable" // the annotations of all nodes can be parsed
	ConditionOverlap  = "Overlap"  // other groups select nodes of this one
	ConditionDrained  = "Drained"  // no drain is blocked
	ConditionHeldBack = "HeldBack" // a node waits for a person
)

// Reasons of the condition Waiting.
const (
	ReasonNobody  = "NobodyWaits"
	ReasonMax     = "MaxUnavailableReached"
	ReasonPaused  = "Paused"
	ReasonWindow  = "OutsideWindow"
	ReasonBlocked = "Blocked"
	ReasonSpec    = "InvalidSpec"
	ReasonNodes   = "NodesHeldBack"
	ReasonNext    = "NextInLine"
)

// Facts are the input for a group's conditions.
type Facts struct {
	Group *api.RebootGroup
	// SpecErr joins the mistakes in the spec, or is nil.
	SpecErr error
	// Limit is how many nodes may be unavailable, and Nodes how many belong to
	// the group.
	Limit, Nodes int
	// Members are the nodes that the group selects.
	Members []*corev1.Node
	// Guests are nodes with a slot of the group that the group no longer
	// selects.
	Guests []*corev1.Node
	// Slots and Queue are the new ledger.
	Slots []api.Slot
	Queue []api.Waiting
	// Stuck contains a text for each node that holds a slot for too long.
	Stuck []string
	// Overlaps contains, for each node of Members that several groups select,
	// the names of all these groups.
	Overlaps map[string][]string
	// Barred contains the reasons why nodes get no slot of this group, by node.
	Barred map[string]string
	// Closed says when the next maintenance window opens. It is empty if a
	// window is open, or if the spec is invalid. Blocked names the alert or
	// command that forbids reboots, and is empty if reboots are allowed.
	Closed, Blocked string
	Now             time.Time
}

// Report returns the conditions of a group, without times. It returns the same
// texts for the same facts, so that unchanged facts do not cause a write.
func Report(f Facts) []metav1.Condition {
	conditions := []metav1.Condition{f.valid(), f.waiting(), f.drained(), f.stuck(), f.readable(), f.overlap(), f.held()}
	for i := range conditions {
		conditions[i].ObservedGeneration = f.Group.Generation
	}
	return conditions
}

func (f Facts) valid() metav1.Condition {
	if f.SpecErr != nil {
		return condition(ConditionValid, metav1.ConditionFalse, ReasonSpec, lines(f.SpecErr.Error()))
	}
	return condition(ConditionValid, metav1.ConditionTrue, "Understood",
		fmt.Sprintf("at most %d of %d nodes are unavailable at once", f.Limit, f.Nodes))
}

func (f Facts) waiting() metav1.Condition {
	if len(f.Queue) == 0 {
		return condition(ConditionWaiting, metav1.ConditionFalse, ReasonNobody, "no request waits for a slot")
	}
	var names []string
	for _, w := range f.Queue {
		names = append(names, w.Node)
	}
	reason, message := f.obstacle()
	return condition(ConditionWaiting, metav1.ConditionTrue, reason,
		fmt.Sprintf("oldest first: %s; %s", abbreviate(names), message))
}

// obstacle returns why the requests in the queue have no slot, as a reason for
// the condition and as a text.
func (f Facts) obstacle() (reason, message string) {
	switch {
	case f.SpecErr != nil:
		return ReasonSpec, "no node is rebooted until the spec is corrected"
	case f.Group.DeletionTimestamp != nil:
		return ReasonPaused, "the group is being deleted"
	case f.Group.Spec.Paused:
		return ReasonPaused, "the group is paused: set spec.paused to false"
	case f.Closed != "":
		return ReasonWindow, f.Closed
	case f.Blocked != "":
		return ReasonBlocked, f.Blocked
	}
	var held []string
	first := "" // the first node that only needs a slot
	for _, w := range f.Queue {
		if reason := f.heldBack(w).Why; reason != "" {
			held = append(held, w.Node+": "+reason)
		} else if first == "" {
			first = w.Node
		}
	}
	if first == "" {
		return ReasonNodes, abbreviate(held)
	}
	reason, message = f.space(first)
	if len(held) > 0 {
		message += "; also held back: " + abbreviate(held)
	}
	return reason, message
}

// space returns ReasonNext if a slot is free for the candidate, and otherwise
// ReasonMax, each with an explanation. The candidate itself does not count as
// unavailable.
func (f Facts) space(candidate string) (reason, message string) {
	var unavailable []string
	for _, n := range f.Members {
		if Unavailable(n) && !Holds(f.Slots, n.Name) && n.Name != candidate {
			unavailable = append(unavailable, n.Name)
		}
	}
	if len(f.Slots)+len(unavailable) < f.Limit {
		return ReasonNext, "a slot is free for " + candidate
	}
	slices.Sort(unavailable)
	parts := []string{fmt.Sprintf("%d of %d may be unavailable", len(f.Slots)+len(unavailable), f.Limit)}
	if len(f.Slots) > 0 {
		parts[0] += ": " + abbreviate(f.holders())
	}
	if len(unavailable) > 0 {
		parts = append(parts, "not Ready without a slot: "+abbreviate(unavailable))
	}
	return ReasonMax, strings.Join(parts, "; ")
}

func (f Facts) holders() []string {
	var nodes []string
	for _, s := range f.Slots {
		nodes = append(nodes, s.Node)
	}
	return nodes
}

// heldBack returns why a node would not get a slot even if one were free.
func (f Facts) heldBack(w api.Waiting) Hold {
	for _, n := range f.Members {
		if n.Name == w.Node {
			return HeldBack(n, w, f.Barred[w.Node], f.Group.Spec.MaxReboots, f.Now)
		}
	}
	return Hold{}
}

// HeldFast returns a text for each node that waits for a person, with the
// node's name and the reason.
func (f Facts) HeldFast() []string {
	var reasons []string
	for _, w := range f.Queue {
		if hold := f.heldBack(w); hold.Lasting {
			reasons = append(reasons, w.Node+": "+hold.Why)
		}
	}
	return reasons
}

func (f Facts) held() metav1.Condition {
	reasons := f.HeldFast()
	if len(reasons) == 0 {
		return condition(ConditionHeldBack, metav1.ConditionFalse, "NobodyIsHeldBack", "no request waits for a person")
	}
	return condition(ConditionHeldBack, metav1.ConditionTrue, "RebootsDoNotHelp", abbreviate(reasons))
}

// drained returns the condition Drained, which names the Pods that cannot be
// evicted.
func (f Facts) drained() metav1.Condition {
	var blocked []string
	for _, n := range slices.Concat(f.Members, f.Guests) {
		if p := protocol.Read(n).InProgress; p != nil && !p.Drained && p.Blocked != "" {
			blocked = append(blocked, n.Name+": "+p.Blocked)
		}
	}
	if len(blocked) == 0 {
		return condition(ConditionDrained, metav1.ConditionTrue, "NoneBlocked", "no eviction is refused")
	}
	slices.Sort(blocked)
	return condition(ConditionDrained, metav1.ConditionFalse, "EvictionBlocked", abbreviate(blocked))
}

func (f Facts) stuck() metav1.Condition {
	if len(f.Stuck) == 0 {
		return condition(ConditionStuck, metav1.ConditionFalse, "NobodyIsStuck", "no slot is held for too long")
	}
	return condition(ConditionStuck, metav1.ConditionTrue, "SlotHeldTooLong", abbreviate(f.Stuck))
}

func (f Facts) readable() metav1.Condition {
	var faults []string
	for _, n := range slices.Concat(f.Members, f.Guests) {
		if err := protocol.Read(n).Fault(); err != nil {
			faults = append(faults, lines(err.Error()))
		}
	}
	if len(faults) == 0 {
		return condition(ConditionReadable, metav1.ConditionTrue, "Understood", "all annotations can be read")
	}
	slices.Sort(faults)
	return condition(ConditionReadable, metav1.ConditionFalse, "InvalidAnnotation", abbreviate(faults))
}

func (f Facts) overlap() metav1.Condition {
	if len(f.Overlaps) == 0 {
		return condition(ConditionOverlap, metav1.ConditionFalse, "NoOverlap", "no other group selects these nodes")
	}
	var texts []string
	for node, groups := range f.Overlaps {
		texts = append(texts, fmt.Sprintf("%s (%s)", node, strings.Join(groups, ", ")))
	}
	slices.Sort(texts)
	return condition(ConditionOverlap, metav1.ConditionTrue, "SelectedByOthers",
		"a node that several groups select is not rebooted: narrow a nodeSelector: "+abbreviate(texts))
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// abbreviate joins texts. If there are many, it joins only the first few, and
// adds that there are more.
func abbreviate(texts []string) string {
	const maxTexts = 5
	if len(texts) <= maxTexts {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(texts[:maxTexts], "; "), len(texts)-maxTexts)
}

func lines(text string) string { return strings.ReplaceAll(text, "\n", "; ") }
