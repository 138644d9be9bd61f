package reconciletest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/stacks"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// outcome is everything that is known of one run.
type outcome struct {
	finding    *report.Finding
	late       *report.Finding // a Run that has returned too late
	whole      bool            // it has come to its last restart
	void       bool            // nothing is known: the workload could not be done
	lines      []string        // the trace
	calls      []*call
	deliveries int
	decisions  int
	acts       int // of the actors
	writes     int
	delivered  []int          // the decision that each delivery was
	outputs    []output       // the objects that the program made
	written    []output       // and those that it has written to
	counts     map[string]int // how many objects there were, and were deleted
	uses       uses
	wroteAt    int  // the line of the program's last write; -1: none
	cached     bool // it has given a cache to Env.Cache
	rules      rules.Set
	restedAt   []int         // the length of the trace at each rest
	commits    []int         // the number of writes to watched resources at each rest
	stayed     []string      // the part of the trace in which it had to stay at rest
	same       int           // the lines before the first deviation
	stuck      func()        // is called when Run does not return
	states     []*state.Rest // at each rest: at first, after each step of the workload, and at the end
}

// call is one call of the program. Deviations refer to calls by their position, from 1, among those that are neither
// for Events nor for Leases.
type call struct {
	apisim.Call
	effect bool // it has written
}

// uses holds the resources that the program watches, reads and writes, such as "jobs.batch". A read of a subresource
// needs no watch.
type uses struct{ watched, read, written map[string]bool }

// newOutcome is that of a run in which nothing has happened.
func newOutcome() *outcome {
	return &outcome{
		same: math.MaxInt, wroteAt: -1, counts: map[string]int{}, rules: rules.Set{},
		uses: uses{watched: map[string]bool{}, read: map[string]bool{}, written: map[string]bool{}},
	}
}

// hash names a trace: a token is of the code that gave this one. It leaves out where in the code a call was made, so
// that a token survives changes that do not change what the program does; and errors, which come in no certain order.
func (o *outcome) hash() string {
	h := fnv.New32a()
	for _, l := range o.lines {
		if text, _, _ := strings.Cut(l, "   ("); !strings.HasPrefix(l, report.Error) {
			_, _ = h.Write([]byte(text))
		}
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// inBubble plays one plan in a bubble of its own, with client-go's sources of chance reset. An error says that the
// world of the case could not be made. A goroutine that is left when Run has returned is a finding: the bubble panics
// then.
func (x *explorer) inBubble(p plan.Plan, s setting) (out *outcome, err error) {
	x.t.Helper()
	watchdog := time.AfterFunc(hangs, func() { x.hung(p, out) })
	defer watchdog.Stop()
	defer func() {
		if bad := recover(); bad != nil {
			if text := fmt.Sprint(bad); !strings.Contains(text, "blocked goroutines remain") {
				panic(bad)
			}
			if out.finding == nil {
				out.finding = &report.Finding{
					Oracle: report.Stop,
					Text:   "Run has returned, and goroutines that it started are still there",
				}
			}
		}
	}()
	rand.Seed(1) //nolint:staticcheck // client-go takes its jitter from the global source; see Explore
	utilrand.Seed(1)
	synctest.Test(x.t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var r *run
		if r, err = newRun(x, p, s); err != nil {
			return
		}
		out = r.out
		out.stuck = func() { watchdog.Reset(min(hangs, lingers)) }
		r.play(ctx)
	})
	return out, err
}

const lingers = 3 * time.Second // how long a bubble may take, in real time, to end after its Run did not

// hangs is how long one run may take in real time: a longer one waits for something outside of the bubble.
var hangs = time.Minute //nolint:gochecknoglobals // tests do not wait for a minute

// hung ends the test binary with an explanation and a token: a goroutine that does not end cannot be taken out of its
// bubble.
func (x *explorer) hung(p plan.Plan, out *outcome) {
	words := "without any fault"
	if len(p) > 0 {
		words = p.Words()
	}
	what, hash := "a run has taken longer than "+hangs.String()+", in real time. "+stacks.Diagnose(), "?"
	if out != nil {
		hash = out.hash()
		if out.finding != nil {
			what = out.finding.Text
		}
	}
	panic("reconciletest: " + words + ": " + what + "\n  replay: " + plan.Token(p, hash, x.less))
}
