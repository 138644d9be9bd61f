package drain

import (
	"fmt"
	"strings"
)

// A State is why a Pod is still there.
type State string

// The states of a Pod that is left.
const (
	Terminating State = "is still terminating"
	Refused     State = "refused"       // by the server, mostly for a disruption budget
	NoAnswer    State = "no answer"     // to the request for its eviction
	NotAsked    State = "not asked yet" // as the time of the pass was over
)

// A Leftover is a Pod that must leave and was there.
type Leftover struct {
	// Pod is namespace/name.
	Pod   string
	State State
	// Why names the disruption budget, if one is the reason, or the error.
	Why string
	// NeverAsked says that no pass has got an answer about this Pod.
	NeverAsked bool
}

func (l Leftover) String() string {
	switch l.State {
	case Terminating:
		return "Pod " + l.Pod + " is still terminating"
	case Refused:
		return "Pod " + l.Pod + ": " + l.Why
	case NoAnswer:
		return "Pod " + l.Pod + ": no answer to its eviction: " + l.Why
	default:
		return "Pod " + l.Pod + ": not asked yet"
	}
}

// Pass is the result of one pass over a node.
type Pass struct {
	// Left are the Pods that must leave and were there, by name.
	Left []Leftover
	// Returned are Pods that were made after the node was cordoned, as
	// namespace/name. The drain does not wait for them.
	Returned []string
}

// Over reports whether no Pod is left.
func (p Pass) Over() bool { return len(p.Left) == 0 }

// NotAsked returns how many Pods were never asked to leave, as far as is known.
func (p Pass) NotAsked() int {
	count := 0
	for _, l := range p.Left {
		if l.NeverAsked {
			count++
		}
	}
	return count
}

// Refusals describes the Pods whose eviction was refused, or got no answer; ""
// if there are none. The text depends on nothing else.
func (p Pass) Refusals() string { return p.describe(Refused, NoAnswer) }

// Leftovers describes the Pods that are left: those whose eviction is refused
// come first.
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
	return some(texts)
}

// some joins the first few of many texts.
func some(texts []string) string {
	const most = 3
	if len(texts) <= most {
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(texts[:most], "; "), len(texts)-most)
}
