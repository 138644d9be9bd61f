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

// outcome is everything that is known of one run.
type outcome struct {
	finding    *report.Finding
	late       *report.Finding // a Run that has returned too late
	whole      bool            // it has reached its last restart
	void       bool            // nothing is known: the workload could not be done
	lines      []string        // the trace
	calls      []*call
	asked      int        // the writes that the server has answered
	refused    []*refusal // the writes that it has refused
	deliveries int
	decisions  int
	acts       int // of the actors
	writes     int
	delivered  []int           // the decision that each delivery was
	outputs    []output        // the objects that the program made
	written    []output        // and those that it has written to
	inputs     []input         // the objects that it may have read
	changed    string          // the input that the plan has changed
	unwoken    *report.Finding // the first write of a restart after it: the running program had missed the change
	counts     map[string]int  // how many objects there were, and were deleted
	kept       map[string]bool // its objects that existed at a rest, or that others wrote to
	uses       uses
	drift      drift
	wroteAt    int // the line of the program's last write; -1: none
	rules      rules.Set
	restedAt   []int                                // the length of the trace at each rest
	commits    []int                                // the number of writes to watched resources at each rest
	stayed     []string                             // the part of the trace in which it had to stay at rest
	same       int                                  // the lines before the first deviation
	outside    bool                                 // a step that came early wrote nothing to the server
	affected   func([]state.Located) state.Affected // what a lasting refusal may change
	stuck      func()                               // is called when Run does not return
	states     []*state.Rest                        // at each rest: at first, after each step, and at the end
}

// drift is what followed when an output was deleted or edited.
type drift struct {
	began     bool
	output    string // as in the trace of its delivery
	delivered bool   // a watch of the program got an event of the output
	reached   bool   // a worker of a controller took a key
	gated     bool   // the program has workers of which that is known
	unowned   bool   // the output had no owner reference
}

// of begins with an output.
func (d *drift) of(o *output) {
	resource, _, _ := strings.Cut(o.resource, ".")
	d.began, d.output = true, " "+resource+" "+o.key
}

// sees notes a delivery.
func (d *drift) sees(event string) {
	d.delivered = d.delivered || strings.HasSuffix(event, d.output)
}

// why is the reason of a finding that follows from the plan. usual is the
// number of writes without faults.
func (o *outcome) why(p plan.Plan, usual int, saw report.Seen) report.Reason {
	saw.Unowned = o.drift.unowned
	saw.Outside = o.outside
	saw.Less = o.writes < usual
	saw.Missed = o.drift.began && !o.drift.delivered
	saw.Unmoved = o.drift.delivered && o.drift.gated && !o.drift.reached
	return report.Of(p, saw)
}

// call is one call of the program. Deviations refer to calls by their position,
// from 1, among those that are neither for Events nor for Leases.
type call struct {
	apisim.Call
	effect bool // it has written
}

// conflicts reports whether the server may answer the call with 409 although no
// other client has changed the object: to a create because of its quota, to a
// patch when the server's own attempts have failed. An update or a deletion
// gets one only after a change, whose event follows, so a program may rely on
// that event: see plan.Rivalled.
func (c *call) conflicts() bool { return c.Verb == "create" || c.Verb == "patch" }

// reads reports whether the call at that position is a read.
func (o *outcome) reads(at int) bool { return at <= len(o.calls) && !o.calls[at-1].Write() }

// uses holds the resources that the program watches, reads and writes, such as
// "jobs.batch". A read of a subresource needs no watch.
type uses struct{ watched, read, written map[string]bool }

// newOutcome is that of a run in which nothing has happened.
func newOutcome() *outcome {
	return &outcome{
		same: math.MaxInt, wroteAt: -1, counts: map[string]int{}, kept: map[string]bool{}, rules: rules.Set{},
		uses: uses{watched: map[string]bool{}, read: map[string]bool{}, written: map[string]bool{}},
	}
}

// hash identifies a trace, so that a token belongs to the code that produced
// it. [report.Hashed] says what does not count.
func (o *outcome) hash() string {
	h := fnv.New32a()
	for _, l := range o.lines {
		if text, counts := report.Hashed(l); counts {
			_, _ = h.Write([]byte(text))
		}
	}
	return fmt.Sprintf("%08x", h.Sum32())
}
