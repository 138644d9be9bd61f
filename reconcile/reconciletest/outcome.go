package reconciletest

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/homeostat/homeostat/internal/apisim"
)

// The oracles: what tells a wrong run from a right one.
const (
	oracleRun      = "run"      // Run returns only when its context has ended
	oracleStop     = "stop"     // no goroutine is left behind
	oracleWorkload = "workload" // the workload works without faults
	oracleRest     = "rest"     // it comes to rest
	oracleGoal     = "goal"     // the goal holds at rest
	oracleAlways   = "always"   // the invariant holds after every write
	oracleTail     = "tail"     // at rest a restart writes nothing
	oracleState    = "state"    // the end is that of the run without faults
	oracleCounts   = "counts"   // a slow watch alone makes it have or delete nothing more
	oracleLeader   = "leader"   // only the replica that holds the Lease writes
	oracleWatch    = "watch"    // what it writes and reads, it watches
	oraclePast     = "past"     // a cache of the past does not make it delete what is wanted
	oracleLost     = "lost"     // what others write is not wiped away
	oracleMutation = "mutation" // it does not edit objects of a cache
	oracleCache    = "cache"    // at rest a cache is what the server has
	oracleStay     = "stay"     // what is at rest stays so
	oracleAmplify  = "amplify"  // a fault does not multiply the writes
	oracleRetry    = "retry"    // what the server has put off is not asked for again before its time
)

// finding is what an oracle said.
type finding struct {
	oracle string
	text   string
	upTo   int // the lines of the trace that matter; 0: all
}

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
	finding    *finding
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
	rules      ruleSet
	restedAt   []int   // the lines of the trace until then
	commits    []int   // the writes to watched resources until then
	states     []state // at rest: at first, after each step of the workload, and at the end
}

func newOutcome() *outcome {
	return &outcome{
		counts: map[string]int{}, watched: map[string]bool{}, read: map[string]bool{}, written: map[string]bool{},
		rules: ruleSet{},
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
		r.out.finding = &finding{oracle: oracle, text: text, upTo: len(r.out.lines)}
	}
}
