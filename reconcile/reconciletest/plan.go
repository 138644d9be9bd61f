package reconciletest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

// deviation is one difference from the run without faults.
type deviation struct {
	at    byte // what kind it is: a key of kinds
	index int  // 1-based: of the call, the delivery, the decision, the rest, the step, the output, the act
	fault apisim.Fault
	n     int // how much of it, for some kinds
}

// hold is the fault of a call or delivery that comes late; the simulator knows no such fault.
const hold = apisim.NoFault

// The kinds of deviations.
const (
	atCall     = 'c' // a call suffers the fault
	atDelivery = 'd' // the delivery of an event does
	early      = 'w' // a step of the workload comes before the decision
	parted     = 'p' // the network does not reach the caller, from a call on
	stopped    = 'g' // the caller is told to stop at a call, and starts again
	rivalled   = 'f' // somebody else writes the object of a call, a read or a write, just before it
	deleted    = 'x' // an output is deleted
	edited     = 'e' // an output is edited
	restarted  = 't' // the program restarts at rest, and its caches begin n writes ago
	unsynced   = 'b' // the program restarts at rest, and the first list of the n-th resource comes late
	offline    = 'o' // the program is down for n steps of the workload
	asleep     = 'j' // everything sleeps for an hour at rest
	shuffled   = 's' // the order of everything is that of a seed
	lagging    = 'a' // an actor is late
)

// kinds says of each kind what the number after the dot is: a fault, n, or nothing; and how to tell it.
var kinds = map[byte]struct {
	faulty, numbered bool
	words            string // with the index, and n
}{
	atCall:     {faulty: true},
	atDelivery: {faulty: true},
	early:      {words: "the next step of the workload comes before decision %d"},
	parted:     {words: "the network does not reach the caller for a while, from call %d on"},
	stopped:    {words: "the program is told to stop at call %d, and starts again"},
	rivalled:   {words: "somebody else writes the same object just before call %d"},
	deleted:    {words: "somebody deletes output %d"},
	edited:     {words: "somebody edits output %d"},
	restarted:  {numbered: true, words: "a restart at rest %d, with caches that begin %d writes ago"},
	unsynced:   {numbered: true, words: "a restart at rest %d, in which the first list of watched resource %d comes late"},
	offline:    {numbered: true, words: "the program is down from step %d of the workload on, for %d steps"},
	asleep:     {words: "everything sleeps for an hour at rest %d"},
	shuffled:   {words: "the order of everything is that of seed %d"},
	lagging:    {words: "the actor of act %d is late"},
}

var faultCodes = map[string]apisim.Fault{
	"": hold, "500": apisim.Internal, "409": apisim.Conflict, "429": apisim.Throttled, "refused": apisim.Unreachable,
	"lost": apisim.LostReply, "late": apisim.Late, "before": apisim.CrashBefore, "after": apisim.CrashAfter,
	"410": apisim.Expired, "drop": apisim.Dropped, "twice": apisim.Duplicated,
}

func codeOf(f apisim.Fault) string {
	for code, fault := range faultCodes {
		if fault == f {
			return code
		}
	}
	return "?"
}

func (d deviation) String() string {
	s := string(rune(d.at)) + strconv.Itoa(d.index)
	if kinds[d.at].numbered {
		return s + "." + strconv.Itoa(d.n)
	}
	if code := codeOf(d.fault); code != "" {
		s += "." + code
	}
	return s
}

var callWords = map[apisim.Fault]string{
	hold:            "a slow network at",
	apisim.Internal: "500 instead of", apisim.Conflict: "409 instead of", apisim.Throttled: "429 instead of",
	apisim.Unreachable: "connection refused at", apisim.LostReply: "the reply is lost of",
	apisim.Late:        "timeout, and later the commit, of",
	apisim.CrashBefore: "crash before", apisim.CrashAfter: "crash after", apisim.Expired: "410 instead of",
}

var deliveryWords = map[apisim.Fault]string{
	hold: "watch held back from", apisim.Dropped: "watch ends at", apisim.Expired: "410 and a new list at",
	apisim.Duplicated: "an event comes twice at",
}

// words says what the deviation does.
func (d deviation) words() string {
	k := kinds[d.at]
	switch {
	case d.at == atCall:
		return callWords[d.fault] + " call " + strconv.Itoa(d.index)
	case d.at == atDelivery:
		return deliveryWords[d.fault] + " delivery " + strconv.Itoa(d.index)
	case d.at == restarted && d.n == 0:
		return fmt.Sprintf("a restart at rest %d", d.index)
	case k.numbered:
		return fmt.Sprintf(k.words, d.index, d.n)
	}
	return fmt.Sprintf(k.words, d.index)
}

// plan is a whole run: its deviations, in order.
type plan []deviation

func (p plan) String() string {
	var parts []string
	for _, d := range p {
		parts = append(parts, d.String())
	}
	return strings.Join(parts, "+")
}

func (p plan) words() string {
	var parts []string
	for _, d := range p {
		parts = append(parts, d.words())
	}
	return strings.Join(parts, ", and ")
}

func (p plan) find(at byte, index int) (deviation, bool) {
	for _, d := range p {
		if d.at == at && d.index == index {
			return d, true
		}
	}
	return deviation{}, false
}

// kind returns the first deviation of a kind.
func (p plan) kind(at byte) (deviation, bool) {
	for _, d := range p {
		if d.at == at {
			return d, true
		}
	}
	return deviation{}, false
}

func parsePlan(text string) (plan, error) {
	var p plan
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

func parseDeviation(word string) (deviation, error) {
	where, code, _ := strings.Cut(word[1:], ".")
	d := deviation{at: word[0]}
	k, known := kinds[d.at]
	if !known {
		return deviation{}, fmt.Errorf("deviation %q is not known", word)
	}
	var err error
	if d.index, err = strconv.Atoi(where); err != nil || d.index < 1 {
		return deviation{}, fmt.Errorf("deviation %q has no index", word)
	}
	if k.numbered {
		d.n, err = strconv.Atoi(code)
		if err != nil || d.n < 0 {
			return deviation{}, fmt.Errorf("deviation %q does not say how much", word)
		}
		return d, nil
	}
	if d.fault, known = faultCodes[code]; !known || code != "" && !k.faulty {
		return deviation{}, fmt.Errorf("deviation %q has a fault that is not known", word)
	}
	return d, nil
}
