package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// tooOften returns why a node with these recent reboots may not reboot again
// now, and how long that lasts. reason is the empty string if the node may
// reboot. tooOften does not count the reboot of the given epoch.
func tooOften(
	recent []protocol.Told, m api.MaxReboots, epoch int64, now time.Time,
) (left time.Duration, reason string) {
	count, period := m.Bounds()
	var times []time.Time
	for _, t := range recent {
		if t.Epoch != epoch && t.At.Add(period).After(now) {
			times = append(times, t.At.Time)
		}
	}
	if len(times) < count {
		return 0, ""
	}
	next := times[len(times)-count].Add(period)
	return next.Sub(now), fmt.Sprintf("told to reboot %d times since %s, and not told again before %s: find what "+
		"requests the reboots, "+
		"or raise spec.maxReboots", len(times), stamp(times[0]), stamp(next))
}

// A Hold is the reason why a node that requests a reboot gets no slot even if
// one is free.
type Hold struct {
	Why string // why the node gets no slot; empty if it may get one
	// Left is how long the reason lasts, or 0 if that is not known.
	Left time.Duration
	// Lasting is true if the reason needs a person's attention, even if it ends
	// by itself after Left. For example, a node that requests reboots too often
	// is held back until a person finds what requests them.
	Lasting bool
}

// HeldBack returns why the node gets no slot even if one is free. entry is the
// node's entry in the queue. barred is the reason why the node's group may not
// give it a slot, or empty.
func HeldBack(node *corev1.Node, entry api.Waiting, barred string, m api.MaxReboots, now time.Time) Hold {
	state := protocol.Read(node)
	left, limited := tooOften(state.Recent, m, 0, now)
	switch {
	case state.Fault() != nil:
		return Hold{Why: "it has an annotation that cannot be read"}
	case barred != "":
		return Hold{Why: barred}
	case state.Paused:
		return Hold{Why: "it is paused: remove its annotation " + protocol.Paused}
	case ended(state, protocol.Unproven):
		return Hold{Lasting: true, Why: "not tried again until the request changes: " + state.Last.Why}
	case limited != "":
		return Hold{Lasting: true, Left: left, Why: limited}
	case ended(state, protocol.CalledOff) && entry.NotBefore.After(now):
		return Hold{Left: entry.NotBefore.Sub(now), Why: fmt.Sprintf("called off, and not tried again before %s unless "+
			"the request changes: %s", stamp(entry.NotBefore.Time), state.Last.Why)}
	default:
		return Hold{}
	}
}

// ended reports whether the last reboot was for the current request, and had
// this result.
func ended(state protocol.State, result string) bool {
	last := state.Last
	return last != nil && last.Result == result && state.Needed != nil && *state.Needed == last.Request.Request
}
