// Package plan describes one run of a case: the deviations from the run without
// faults, and the tokens that name it.
package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Deviation is one difference from the run without faults.
type Deviation struct {
	At    byte // its kind: a key of kinds
	Index int  // from 1: of the call, delivery, decision, rest, step, output or act
	Fault apisim.Fault
	N     int // how much of it, for the kinds that are numbered
}

// Hold is the fault of a call or delivery that is delayed. The simulated server
// knows no such fault.
const Hold = apisim.NoFault

// The kinds of deviations.
const (
	AtCall     = 'c' // a call suffers the fault
	AtDelivery = 'd' // the delivery of an event does
	Early      = 'w' // a step of the workload comes before the decision
	Parted     = 'p' // the network does not reach the caller, from a call on
	Stopped    = 'g' // the caller is told to stop at a call, and starts again
	Halted     = 'h' // the program is told to stop at a delivery, and starts again
	Rivalled   = 'f' // another client writes the object of a call, a read or a write, just before it
	Deleted    = 'x' // an output is deleted
	Edited     = 'e' // an output is edited
	Altered    = 'i' // an input is edited: the n-th of its values
	Replaced   = 'r' // an input is deleted and created again
	Marked     = 'm' // another client adds its own to an object of the program
	Restarted  = 't' // the program restarts at rest, and its caches begin n writes ago
	Unsynced   = 'b' // the program restarts at rest, and the first list of the n-th resource comes late
	Offline    = 'o' // the program is down for n steps of the workload
	Asleep     = 'j' // everything sleeps for an hour at rest
	Shuffled   = 's' // a seed orders everything
	Lagging    = 'a' // an actor is late
	Refused    = 'u' // the server refuses every call for a while, from a call on
	Rollout    = 'v' // the old version and the new one run at the same time
	Barred     = 'n' // every call in the namespace of a call is answered with 403, from it on and to the end
	Poisoned   = 'q' // every write to the object of a call is answered with 422, from it on and to the end
)

// kinds holds, for each kind, what the number after the dot means (a fault, N,
// or nothing) and its description.
var kinds = map[byte]struct {
	faulty, numbered bool
	words            string // formatted with the index, and N
}{
	AtCall:     {faulty: true},
	AtDelivery: {faulty: true},
	Early:      {words: "the next step of the workload comes before decision %d"},
	Parted:     {words: "the network does not reach the caller for a while, from call %d on"},
	Stopped:    {words: "the program is told to stop at call %d, and starts again"},
	Halted:     {words: "the program is told to stop at delivery %d, and starts again"},
	Rivalled:   {words: "another client writes the same object just before call %d"},
	Deleted:    {words: "another client deletes output %d"},
	Edited:     {words: "another client edits output %d"},
	Altered:    {numbered: true, words: "another client edits input %d, value %d"},
	Replaced:   {words: "another client deletes input %d, and creates it again"},
	Marked:     {words: "another client adds a label, an annotation, a finalizer and a field to object %d"},
	Restarted:  {numbered: true, words: "a restart at rest %d, with caches that begin %d writes ago"},
	Unsynced:   {numbered: true, words: "a restart at rest %d, in which the first list of watched resource %d comes late"},
	Offline:    {numbered: true, words: "the program is down from step %d of the workload on, for %d steps"},
	Asleep:     {words: "everything sleeps for an hour at rest %d"},
	Shuffled:   {words: "the order of everything is that of seed %d"},
	Lagging:    {words: "the actor of act %d is late"},
	Refused:    {words: "the server refuses every call for a while, from call %d on"},
	Rollout:    {words: "the old version and the new one run at the same time, in rollout %d"},
	Barred:     {words: "403 in the namespace of call %d, from then on and to the end"},
	Poisoned:   {words: "422 for every write to the object of call %d, from then on and to the end"},
}

// Like reports whether two deviations differ at most in position and amount. A
// restart with stale caches is not like one without.
func (d Deviation) Like(o Deviation) bool {
	return d.At == o.At && d.Fault == o.Fault && (d.At != Restarted || (d.N == 0) == (o.N == 0))
}

var faultCodes = map[string]apisim.Fault{
	"": Hold, "500": apisim.Internal, "409": apisim.Conflict, "429": apisim.Throttled, "refused": apisim.Unreachable,
	"lost": apisim.LostReply, "late": apisim.Late, "before": apisim.CrashBefore, "after": apisim.CrashAfter,
	"410": apisim.Expired, "drop": apisim.Dropped, "twice": apisim.Duplicated,
	"proxy": apisim.ProxyNotFound, "unserved": apisim.NotServed, "other": apisim.OtherNotFound,
}

func codeOf(f apisim.Fault) string {
	for code, fault := range faultCodes {
		if fault == f {
			return code
		}
	}
	return "?"
}

func (d Deviation) String() string {
	s := string(rune(d.At)) + strconv.Itoa(d.Index)
	if kinds[d.At].numbered {
		return s + "." + strconv.Itoa(d.N)
	}
	if code := codeOf(d.Fault); code != "" {
		s += "." + code
	}
	return s
}

var callWords = map[apisim.Fault]string{
	Hold:            "a slow network at",
	apisim.Internal: "500 instead of", apisim.Conflict: "409 instead of", apisim.Throttled: "429 instead of",
	apisim.Unreachable: "connection refused at", apisim.LostReply: "the reply is lost of",
	apisim.Late:        "timeout, and later the commit, of",
	apisim.CrashBefore: "crash before", apisim.CrashAfter: "crash after", apisim.Expired: "410 instead of",
	apisim.ProxyNotFound: "404 of a proxy instead of", apisim.NotServed: "404 of a version that is not served instead of",
	apisim.OtherNotFound: "404 about another object instead of",
}

var deliveryWords = map[apisim.Fault]string{
	Hold: "watch held back from", apisim.Dropped: "watch ends at", apisim.Expired: "410 and a new list at",
	apisim.Duplicated: "an event comes twice at",
}

// Words describes the deviation.
func (d Deviation) Words() string {
	k := kinds[d.At]
	switch {
	case d.At == AtCall:
		return callWords[d.Fault] + " call " + strconv.Itoa(d.Index)
	case d.At == AtDelivery:
		return deliveryWords[d.Fault] + " delivery " + strconv.Itoa(d.Index)
	case d.At == Restarted && d.N == 0:
		return fmt.Sprintf("a restart at rest %d", d.Index)
	case k.numbered:
		return fmt.Sprintf(k.words, d.Index, d.N)
	}
	return fmt.Sprintf(k.words, d.Index)
}

// Plan is one run: its deviations, in order.
type Plan []Deviation

func (p Plan) String() string { return p.join("+", Deviation.String) }

// Words describes the plan.
func (p Plan) Words() string { return p.join(", and ", Deviation.Words) }

func (p Plan) join(sep string, text func(Deviation) string) string {
	parts := make([]string, len(p))
	for i, d := range p {
		parts[i] = text(d)
	}
	return strings.Join(parts, sep)
}

// Find returns the deviation of that kind at that index.
func (p Plan) Find(at byte, index int) (Deviation, bool) {
	for _, d := range p {
		if d.At == at && d.Index == index {
			return d, true
		}
	}
	return Deviation{}, false
}

// Changes reports whether another client changes an input: then the end is
// another one.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p, func(d Deviation) bool { return d.At == Altered || d.At == Replaced })
}

// Has reports whether the plan has a deviation of that kind.
func (p Plan) Has(at byte) bool {
	_, has := p.First(at)
	return has
}

// Lasting returns the deviation that lasts to the end, if there is one: then
// the end is another one for what it strikes.
func (p Plan) Lasting() (Deviation, bool) {
	for _, d := range p {
		if d.At == Barred || d.At == Poisoned {
			return d, true
		}
	}
	return Deviation{}, false
}

// First returns the first deviation of that kind.
func (p Plan) First(at byte) (Deviation, bool) {
	for _, d := range p {
		if d.At == at {
			return d, true
		}
	}
	return Deviation{}, false
}

// Parse parses the output of [Plan.String].
func Parse(text string) (Plan, error) {
	var p Plan
	for word := range strings.SplitSeq(text, "+") {
		if word == "" {
			continue
		}
		d, err := parseDeviation(word)
		if err != nil {
			return nil, err
		}
		p = append(p, d)
	}
	return p, nil
}

func parseDeviation(word string) (Deviation, error) {
	where, code, _ := strings.Cut(word[1:], ".")
	d := Deviation{At: word[0]}
	k, known := kinds[d.At]
	if !known {
		return Deviation{}, fmt.Errorf("deviation %q is of an unknown kind", word)
	}
	var err error
	if d.Index, err = strconv.Atoi(where); err != nil || d.Index < 1 {
		return Deviation{}, fmt.Errorf("deviation %q has no index", word)
	}
	if k.numbered {
		if d.N, err = strconv.Atoi(code); err != nil || d.N < 0 {
			return Deviation{}, fmt.Errorf("deviation %q has no number after the dot", word)
		}
		return d, nil
	}
	if d.Fault, known = faultCodes[code]; !known || code != "" && !k.faulty {
		return Deviation{}, fmt.Errorf("deviation %q has an unknown fault", word)
	}
	return d, nil
}
