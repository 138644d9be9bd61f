package reconciletest

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// call is one call of the program.
type call struct {
	apisim.Call
	effect bool
}

// output is an object that the program made.
type output struct {
	resource, key string
	leaf          []string // the path of a value that may be edited; nil: there is none
	value         any      // what an editor makes of it
}

// outcome is all that is known of one run.
type outcome struct {
	finding    *report.Finding
	lines      []string
	calls      []*call
	deliveries int
	decisions  int
	acts       int // of the actors
	outputs    []output
	counts     map[string]int
	writes     int
	watched    map[string]bool
	read       map[string]bool
	written    map[string]bool
	rules      rules.Set
	restedAt   []int         // the lines of the trace until then
	commits    []int         // the writes to watched resources until then
	states     []state.State // at rest: at first, after each step of the workload, and at the end
}

func newOutcome() *outcome {
	return &outcome{
		counts: map[string]int{}, watched: map[string]bool{}, read: map[string]bool{}, written: map[string]bool{},
		rules: rules.Set{},
	}
}

// hash names a trace: a token is of the code that gave this one.
func (o *outcome) hash() string {
	h := fnv.New32a()
	for _, l := range o.lines {
		text, _, _ := strings.Cut(l, "   (") // lines of code move
		_, _ = h.Write([]byte(text))
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

const mostLines = 100_000

func (r *run) line(text string) {
	if len(r.out.lines) < mostLines {
		r.out.lines = append(r.out.lines, text)
	}
}

// find keeps the first finding.
func (r *run) find(oracle, text string) {
	if r.out.finding == nil {
		r.out.finding = &report.Finding{Oracle: oracle, Text: text, UpTo: len(r.out.lines)}
	}
}
