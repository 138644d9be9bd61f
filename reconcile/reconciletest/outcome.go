package reconciletest

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// outcome is the result of one run, with everything that it has recorded.
type outcome struct {
	finding     *report.Finding
	overdue     *report.Finding // a Run that has returned too late
	whole       bool            // whether the run has reached its last restart
	void        bool            // whether the workload could not be done; the run then has no result
	lines       []string        // the trace
	calls       []*call
	asked       int        // the number of the program's writes that the server itself has answered
	refused     []*refusal // the writes that the server has refused
	deliveries  int
	decisions   int
	acts        int // the number of times that an actor has acted
	writes      int
	delivered   []int           // for each delivery, its number among all decisions of the run
	pauses      int             // how many times the run let time pass because no action was possible
	waits       []pause         // the pauses that ended with a call of the program
	created     map[string]int  // the number of objects made by the program that exist after the workload, by resource
	outputs     []output        // the objects that created counts, except for resources in Case.Unwatched
	written     []output        // the objects that created counts, and other objects that the program has written to
	inputs      []input         // the objects that the program may have read and has not created
	changed     string          // which input the plan has changed, and how; empty if it has changed none
	ignored     *report.Finding // a write that only a restart made in reaction to the changed input
	counts      map[string]int  // counters of the objects that existed at once, and of the deletions; see judge.count
	permanent   map[string]bool // the program's objects that existed at a rest, or that others wrote to
	uses        uses
	drift       drift
	wroteAt     int // the trace line of the program's last write, or -1
	rules       rules.Set
	restedAt    []int                                // the length of the trace at each rest
	undoable    []int                                // at each rest, the number of writes since the last write of a step
	commits     []int                                // the number of writes to watched resources at each rest
	stayed      []string                             // the part of the trace in which the program had to stay at rest
	samePrefix  int                                  // the number of trace lines before the first deviation
	onlyOutside bool                                 // whether a step that was done early did not write to the server
	affected    func([]state.Located) state.Affected // returns the objects that a lasting fault may have changed
	stuck       func()                               // called when Run does not return
	states      []*state.Rest                        // at each rest: after the start, each step, and at the end
}

// pause identifies a period in which a replica was waiting for time to pass.
type pause struct{ number, replica int }

// drift records what happened after an output was deleted or edited.
type drift struct {
	began     bool
	output    string // how a trace line ends that delivers the output: " RESOURCE KEY", such as " pods default/a"
	delivered bool   // whether a watch of the program got an event of the output
	reached   bool   // whether a worker of a controller took a key after the change
	gated     bool   // whether the program has workers for which reached is recorded
	unowned   bool   // whether the output had no owner reference
}

// note begins to record what happens to an output.
func (d *drift) note(o *output) {
	resource, _, _ := strings.Cut(o.resource, ".")
	d.began, d.output = true, " "+resource+" "+o.key
}

// sees records a delivery, if it is an event of the output.
func (d *drift) sees(event string) {
	d.delivered = d.delivered || strings.HasSuffix(event, d.output)
}

// reason returns the Reason of a finding. It depends on the plan, on what the
// run has recorded, and on saw, which says what the finding shows. usual is the
// number of writes in the run without faults.
func (o *outcome) reason(p plan.Plan, usual int, saw report.Seen) report.Reason {
	saw.Unowned = o.drift.unowned
	saw.OnlyOutside = o.onlyOutside
	saw.FewerWrites = o.writes < usual
	saw.Missed = o.drift.began && !o.drift.delivered
	saw.Unmoved = o.drift.delivered && o.drift.gated && !o.drift.reached
	return report.ReasonFor(p, saw)
}

// call is one call of the program. Deviations refer to a call by its number.
// Calls are numbered from 1, without the ones for Events and Leases.
type call struct {
	apisim.Call
	effect bool // whether the call has changed an object
}

// conflicts reports whether the server may answer the call with 409 although no
// other client has changed the object. This happens to a create because of a
// quota, and to a patch if the server's own retries have failed. An update or a
// deletion gets a 409 only after another client's change. The event of that
// change follows, and a program may rely on that event: see plan.Rivalled.
func (c *call) conflicts() bool { return c.Verb == "create" || c.Verb == "patch" }

// may reports whether such a call can suffer the fault, because of a server or
// of the network in front of it. For example, no server answers a read with a
// conflict.
func (c *call) may(f apisim.Fault) bool {
	switch f {
	case apisim.Conflict:
		return c.conflicts()
	case apisim.Expired:
		return c.Verb == "list" || c.Verb == "watch"
	case apisim.OtherNotFound:
		return c.Verb == "get" || c.Verb == "delete"
	case apisim.ProxyNotFound, apisim.NotServed:
		return c.Verb == "get" || c.Verb == "delete" || c.Verb == "list"
	case plan.Hold:
		return c.Verb != "watch"
	default:
		return true
	}
}

// possible reports whether the run may suffer a deviation. A deviation at a
// call is not possible if no server answers the call with its fault.
func (o *outcome) possible(d plan.Deviation) bool {
	return d.Kind != plan.AtCall || d.Index > len(o.calls) || o.calls[d.Index-1].may(d.Fault)
}

// reads reports whether the call with this number is a read.
func (o *outcome) reads(index int) bool { return index <= len(o.calls) && !o.calls[index-1].Write() }

// uses holds the resources that the program watches, reads and writes, such as
// "jobs.batch". A read of a subresource needs no watch.
type uses struct{ watched, read, written map[string]bool }

// newOutcome returns the outcome of a run that has not started.
func newOutcome() *outcome {
	return &outcome{
		samePrefix: math.MaxInt, wroteAt: -1, rules: rules.Set{},
		created: map[string]int{}, counts: map[string]int{}, permanent: map[string]bool{},
		uses: uses{watched: map[string]bool{}, read: map[string]bool{}, written: map[string]bool{}},
	}
}

// hash returns a hash of the trace. With it, a token shows whether the code
// still takes the same path. [report.Hashed] says which parts of the trace are
// ignored.
func (o *outcome) hash() string {
	h := fnv.New32a()
	for _, l := range o.lines {
		if text, counts := report.Hashed(l); counts {
			_, _ = h.Write([]byte(text))
		}
	}
	return fmt.Sprintf("%08x", h.Sum32())
}
