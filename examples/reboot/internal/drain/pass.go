package drain

import (
	"fmt"
	"strings"
)

// A State is the reason why a Pod has not left yet.
type State string

// The states of a Pod that has not left yet.
const (
	Terminating State = "is still terminating"
	Refused     State = "refused"       // the server refused the eviction, usually because of a disruption budget
	NoAnswer    State = "no answer"     // no answer, or an answer that may be from a proxy
	NotAsked    State = "not asked yet" // the pass ended before it could send the request
)

// A Leftover is a Pod that must leave and has not left yet.
type Leftover struct {
	// Pod is the Pod as namespace/name.
	Pod   string
	State State
	// Reason is why the server refused the eviction, or the error of a request
	// whose state is NoAnswer. It is empty in the other states. If a disruption
	// budget caused the refusal, the reason names it.
	Reason string
	// NeverAsked is true if the Pod is not terminating, and the server has not
	// answered any request of this [Drain] for its eviction.
	NeverAsked bool
}

func (l Leftover) String() string {
	switch l.State {
	case Terminating:
		return "Pod " + l.Pod + " is still terminating"
	case Refused:
		return "Pod " + l.Pod + ": " + l.Reason
	case NoAnswer:
		return "Pod " + l.Pod + ": no answer to its eviction: " + l.Reason
	default:
		return "Pod " + l.Pod + ": not asked yet"
	}
}

// Pass is the result of one pass over a node.
type Pass struct {
	// Left are the Pods that must leave and have not left yet, sorted by name.
	Left []Leftover
	// Returned contains the Pods that count as created after the node was
	// cordoned, as namespace/name; see [Drain.Pass]. The drain does not wait
	// for them.
	Returned []string
}

// Over reports whether all Pods that must leave have left.
func (p Pass) Over() bool { return len(p.Left) == 0 }

// NotAsked returns the number of Pods whose NeverAsked is true; see [Leftover].
func (p Pass) NotAsked() int {
	count := 0
	for _, l := range p.Left {
		if l.NeverAsked {
			count++
		}
	}
	return count
}

// Refusals describes the Pods whose eviction was refused or had no answer. It
// describes at most three of them, and counts the others. It returns the empty
// string if there are no such Pods, and the same text for the same refusals.
func (p Pass) Refusals() string { return p.describe(Refused, NoAnswer) }

// Leftovers describes the Pods that have not left yet. The Pods whose eviction
// was refused are first. It describes at most three Pods, and counts the
// others.
func (p Pass) Leftovers() string { return p.describe(Refused, NoAnswer, NotAsked, Terminating) }

func (p Pass) describe(states ...State) string {
	var texts []string
	for _, state := range states {
		for _, l := range p.Left {
			if l.State == state {
				texts = append(texts, l.String())
			}
		}
	}
	return abbreviate(texts)
}

// abbreviate joins texts. If there are many, it joins only the first few, and
// adds that there are more.
func abbreviate(texts []string) string {
	const maxTexts = 3
	if len(texts) <= maxTexts {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(texts[:maxTexts], "; "), len(texts)-maxTexts)
}
