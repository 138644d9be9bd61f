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
	Kind  byte // a key of kinds
	Index int  // a number from 1, whose meaning depends on Kind, such as the number of a call or a rest
	Fault apisim.Fault
	N     int // the second number of kinds that are numbered, such as an amount or a replica
}

// Hold is the fault of a call or delivery that is delayed. It is not a fault of
// the simulated server, because the run itself delays the action.
const Hold = apisim.NoFault

// The kinds of deviations.
const (
	AtCall     = 'c' // a call suffers the fault
	AtDelivery = 'd' // the delivery of an event suffers the fault
	Early      = 'w' // a step of the workload happens early, before a decision of the scheduler
	Parted     = 'p' // the network does not reach the caller for a while, from a call on
	Stopped    = 'g' // the caller is told to stop at a call, and starts again
	Halted     = 'h' // the program is told to stop at a delivery, and starts again
	Paused     = 'l' // replica n is told to stop while the program waits for time to pass, and starts again
	Rivalled   = 'f' // another client writes the object of a call just before the call, which may be a read or a write
	Deleted    = 'x' // an output is deleted
	Edited     = 'e' // an output is edited
	Detained   = 'k' // an output is deleted, and a finalizer of another client holds it for a while
	Held       = 'z' // an input is deleted, and a finalizer of another client holds it for a while
	Altered    = 'i' // the n-th value of an input is edited
	Replaced   = 'r' // an input is deleted and created again
	Marked     = 'm' // another client adds a label, an annotation, a finalizer and a field to an object of the program
	Restarted  = 't' // the program restarts at rest, and its caches start n writes behind the server
	Unsynced   = 'b' // the program restarts at rest, and the first list of the n-th resource comes late
	Offline    = 'o' // the program is down for n steps of the workload
	Asleep     = 'j' // all processes sleep for an hour at rest
	Shuffled   = 's' // all actions happen in a random order, which a seed determines
	Lagging    = 'a' // an actor is late
	Refused    = 'u' // the server refuses every call for a while, from a call on
	Outage     = 'y' // the server refuses calls or is slow for minutes, from a call on; n is a value such as HalfHour
	Restored   = 'E' // the server is restored at rest, as it was n writes ago, and the program restarts
	Skewed     = 'D' // one clock differs from the others; the index is a value such as Ahead
	Mutated    = 'M' // a webhook adds fields to every object that the program writes
	Unserved   = 'U' // the n-th custom resource is not served for a while, at rest
	Reborn     = 'R' // a CustomResourceDefinition is deleted, and comes back with its objects, at the end
	Silent     = 'S' // the server of an aggregated API does not answer
	Rollout    = 'v' // the old version and the new one run at the same time
	Barred     = 'n' // from a call to the end of the run, the server answers every call in its namespace with 403
	Garbled    = 'B' // from a rest to the end of the run, an object of a custom resource cannot be decoded
	Poisoned   = 'q' // from a call to the end of the run, the server answers every write to its object with 422
)

// These are the values of N for an Outage.
const (
	HalfHour   = 1 + iota // every call is refused, for half an hour
	Busy                  // every call is answered with 429, for minutes
	SlowWrites            // every write is slow, for minutes
	Unknown               // every call is answered with 401, until a restart
)

// These are the values of Index for Skewed.
const (
	Ahead    = 1 + iota // the server's clock is ahead by less than a minute
	Behind              // the server's clock is behind by less than a minute
	FarAhead            // the server's clock is ahead by hours
	// LoneAhead means that the clocks of the server and of all replicas except
	// the first one are ahead by less than a minute.
	LoneAhead
	LoneBehind
)

var skewWords = map[int]string{
	Ahead:      "the server's clock is 45 seconds ahead of the program's",
	Behind:     "the server's clock is 45 seconds behind the program's",
	FarAhead:   "the server's clock is two hours ahead of the program's",
	LoneAhead:  "the clocks of the server and of the other replicas are 45 seconds ahead of the first replica's",
	LoneBehind: "the clocks of the server and of the other replicas are 45 seconds behind the first replica's",
}

var outageWords = map[int]string{
	HalfHour: "the server refuses every call for half an hour", Busy: "429 instead of every call for three minutes",
	SlowWrites: "every write is slow for five minutes", Unknown: "401 instead of every call until a restart",
}

// kinds maps each kind to its description. faulty and numbered say whether a
// fault or N follows the dot in the text of a deviation of that kind.
var kinds = map[byte]struct {
	faulty, numbered bool
	words            string // a format for the index and, if numbered, for N
}{
	AtCall:     {faulty: true},
	AtDelivery: {faulty: true},
	Early:      {words: "the next step of the workload comes before decision %d"},
	Parted:     {words: "the network does not reach the caller for a while, from call %d on"},
	Stopped:    {words: "the program is told to stop at call %d, and starts again"},
	Halted:     {words: "the program is told to stop at delivery %d, and starts again"},
	Paused:     {numbered: true, words: "the program is told to stop in pause %d, replica %d, and starts again"},
	Rivalled:   {words: "another client writes the same object just before call %d"},
	Deleted:    {words: "another client deletes output %d"},
	Edited:     {words: "another client edits output %d"},
	Detained:   {words: "another client deletes output %d, and a finalizer holds it for a while"},
	Held:       {words: "another client deletes input %d, and a finalizer holds it for a while"},
	Altered:    {numbered: true, words: "another client edits input %d, value %d"},
	Replaced:   {words: "another client deletes input %d, and creates it again"},
	Marked:     {words: "another client adds a label, an annotation, a finalizer and a field to object %d"},
	Restarted:  {numbered: true, words: "a restart at rest %d, with caches that begin %d writes ago"},
	Unsynced:   {numbered: true, words: "a restart at rest %d, in which the first list of watched resource %d comes late"},
	Offline:    {numbered: true, words: "the program is down from step %d of the workload on, for %d steps"},
	Asleep:     {words: "everything sleeps for an hour at rest %d"},
	Shuffled:   {words: "all actions happen in the order of seed %d"},
	Lagging:    {words: "the actor of act %d is late"},
	Refused:    {words: "the server refuses every call for a while, from call %d on"},
	Outage:     {numbered: true},
	Restored:   {numbered: true, words: "the server is restored at rest %d, as it was %d writes ago"},
	Skewed:     {words: "the program's clock differs from all others, in way %d"},
	Mutated:    {words: "a webhook adds to everything that the program writes, in way %d"},
	Unserved:   {numbered: true, words: "from rest %d on, custom resource %d is not served for five minutes"},
	Reborn:     {words: "custom resource %d is deleted with its objects, and comes back with objects of the same names"},
	Silent:     {words: "the server of an aggregated API does not answer (%d)"},
	Rollout:    {words: "the old version and the new one run at the same time, in rollout %d"},
	Barred:     {words: "403 in the namespace of call %d, from then on and to the end"},
	Garbled:    {numbered: true, words: "Go cannot decode an object of custom resource %d, from rest %d on"},
	Poisoned:   {words: "422 for every write to the object of call %d, from then on and to the end"},
}

// Resembles reports whether two deviations differ at most in position and
// amount. For example, two deletions of different outputs resemble each other.
// A restart with stale caches does not resemble a restart with current caches,
// nor does an outage or a clock of one kind resemble one of another kind.
func (d Deviation) Resembles(o Deviation) bool {
	return d.Kind == o.Kind && d.Fault == o.Fault && (d.Kind != Outage || d.N == o.N) &&
		(d.Kind != Skewed || d.Index == o.Index) && (d.Kind != Restarted || (d.N == 0) == (o.N == 0))
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
	s := string(rune(d.Kind)) + strconv.Itoa(d.Index)
	if kinds[d.Kind].numbered {
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

// Words returns a short description of the deviation, for the text of a
// failure.
func (d Deviation) Words() string {
	k := kinds[d.Kind]
	switch {
	case d.Kind == AtCall:
		return callWords[d.Fault] + " call " + strconv.Itoa(d.Index)
	case d.Kind == AtDelivery:
		return deliveryWords[d.Fault] + " delivery " + strconv.Itoa(d.Index)
	case d.Kind == Skewed:
		return skewWords[d.Index]
	case d.Kind == Outage:
		return outageWords[d.N] + ", from call " + strconv.Itoa(d.Index) + " on"
	case d.Kind == Restarted && d.N == 0:
		return fmt.Sprintf("a restart at rest %d", d.Index)
	case k.numbered:
		return fmt.Sprintf(k.words, d.Index, d.N)
	}
	return fmt.Sprintf(k.words, d.Index)
}

// Plan lists the deviations of one run, in order.
type Plan []Deviation

func (p Plan) String() string { return p.join("+", Deviation.String) }

// Words returns a short description of all deviations of the plan.
func (p Plan) Words() string { return p.join(", and ", Deviation.Words) }

func (p Plan) join(sep string, text func(Deviation) string) string {
	parts := make([]string, len(p))
	for i, d := range p {
		parts[i] = text(d)
	}
	return strings.Join(parts, sep)
}

// Find returns the deviation of the given kind at the given index, and whether
// the plan has one.
func (p Plan) Find(kind byte, index int) (Deviation, bool) {
	for _, d := range p {
		if d.Kind == kind && d.Index == index {
			return d, true
		}
	}
	return Deviation{}, false
}

// Changes reports whether another client changes an input under this plan. The
// end of such a run may differ from the end of the run without faults.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p, func(d Deviation) bool {
		return d.Kind == Altered || d.Kind == Replaced || d.Kind == Held || d.Kind == Reborn
	})
}

// Clock returns the value of Index for a deviation of the clock, or 0 if the
// clocks agree.
func (p Plan) Clock() int {
	d, _ := p.First(Skewed)
	return d.Index
}

// Misleads returns the deviation that answers a call with a 404 that is not
// about its object, and whether the plan has one.
func (p Plan) Misleads() (Deviation, bool) {
	foreign := []apisim.Fault{apisim.ProxyNotFound, apisim.NotServed, apisim.OtherNotFound}
	for _, d := range p {
		if d.Kind == AtCall && slices.Contains(foreign, d.Fault) {
			return d, true
		}
	}
	return Deviation{}, false
}

// Has reports whether the plan has a deviation of the given kind.
func (p Plan) Has(kind byte) bool {
	_, ok := p.First(kind)
	return ok
}

// Lasting returns the deviation of the kind Barred, Poisoned or Garbled, if
// there is one. It lasts to the end of the run. The objects that it affects may
// then end in a different state than without faults.
func (p Plan) Lasting() (Deviation, bool) {
	for _, d := range p {
		if d.Kind == Barred || d.Kind == Poisoned || d.Kind == Garbled {
			return d, true
		}
	}
	return Deviation{}, false
}

// First returns the first deviation of the given kind, and whether the plan has
// one.
func (p Plan) First(kind byte) (Deviation, bool) {
	for _, d := range p {
		if d.Kind == kind {
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
	position, code, _ := strings.Cut(word[1:], ".")
	d := Deviation{Kind: word[0]}
	k, found := kinds[d.Kind]
	if !found {
		return Deviation{}, fmt.Errorf("deviation %q is of an unknown kind", word)
	}
	var err error
	if d.Index, err = strconv.Atoi(position); err != nil || d.Index < 1 {
		return Deviation{}, fmt.Errorf("deviation %q has no index", word)
	}
	if k.numbered {
		if d.N, err = strconv.Atoi(code); err != nil || d.N < 0 {
			return Deviation{}, fmt.Errorf("deviation %q has no number after the dot", word)
		}
		return d, nil
	}
	if d.Fault, found = faultCodes[code]; !found || code != "" && !k.faulty {
		return Deviation{}, fmt.Errorf("deviation %q has a fault that is unknown or not possible for its kind", word)
	}
	return d, nil
}
