package reconciletest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

// deviation is one difference from the run without faults.
type deviation struct {
	// at is c: a call, d: a delivery, w: a step of the workload comes early, x: an output is deleted,
	// p: the network goes at a call.
	at    byte
	index int // 1-based: of the call, the delivery, the decision, the output
	fault apisim.Fault
}

// hold is the deviation of a delivery that comes late; the simulator knows no such fault.
const hold = apisim.NoFault

var faultCodes = map[string]apisim.Fault{
	"": hold, "500": apisim.Internal, "409": apisim.Conflict, "429": apisim.Throttled, "refused": apisim.Unreachable,
	"lost": apisim.LostReply, "late": apisim.Late, "before": apisim.CrashBefore, "after": apisim.CrashAfter,
	"410": apisim.Expired, "drop": apisim.Dropped,
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
	s := string(d.at) + strconv.Itoa(d.index)
	if code := codeOf(d.fault); code != "" {
		s += "." + code
	}
	return s
}

// words says what the deviation does.
func (d deviation) words() string {
	switch d.at {
	case 'c':
		return map[apisim.Fault]string{
			apisim.Internal: "500 instead of", apisim.Conflict: "409 instead of", apisim.Throttled: "429 instead of",
			apisim.Unreachable: "connection refused at", apisim.LostReply: "the reply is lost of",
			apisim.Late:        "timeout, and later the commit, of",
			apisim.CrashBefore: "crash before", apisim.CrashAfter: "crash after", apisim.Expired: "410 instead of",
		}[d.fault] + " call " + strconv.Itoa(d.index)
	case 'd':
		return map[apisim.Fault]string{
			hold: "watch held back from", apisim.Dropped: "watch ends at", apisim.Expired: "410 and a new list at",
		}[d.fault] + " delivery " + strconv.Itoa(d.index)
	case 'w':
		return "the next step of the workload comes before decision " + strconv.Itoa(d.index)
	case 'p':
		return "the network does not reach the caller for a while, from call " + strconv.Itoa(d.index) + " on"
	case 'x':
		return "somebody deletes output " + strconv.Itoa(d.index)
	}
	return "?"
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

const tokenVersion = "rt1"

// token is what Replay takes: the plan, and a hash of the trace that it gave.
func token(p plan, hash string) string { return tokenVersion + ":" + hash + ":" + p.String() }

func parseToken(token string) (plan, string, error) {
	parts := strings.Split(token, ":")
	if len(parts) != 3 || parts[0] != tokenVersion {
		return nil, "", fmt.Errorf("reading token %q: want %s:HASH:PLAN as a failed exploration prints it", token,
			tokenVersion)
	}
	var p plan
	for word := range strings.SplitSeq(parts[2], "+") {
		if word == "" {
			continue
		}
		d, err := parseDeviation(word)
		if err != nil {
			return nil, "", fmt.Errorf("reading token %q: %w", token, err)
		}
		p = append(p, d)
	}
	return p, parts[1], nil
}

func parseDeviation(word string) (deviation, error) {
	where, code, _ := strings.Cut(word, ".")
	fault, known := faultCodes[code]
	if !known || !strings.ContainsAny(where[:1], "cdwxp") {
		return deviation{}, fmt.Errorf("deviation %q is not known", word)
	}
	index, err := strconv.Atoi(where[1:])
	if err != nil || index < 1 {
		return deviation{}, fmt.Errorf("deviation %q has no index", word)
	}
	return deviation{at: where[0], index: index, fault: fault}, nil
}
