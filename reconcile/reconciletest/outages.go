package reconciletest

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/stacks"
)

// outage is a period in which the server refuses calls, or is slow.
type outage struct {
	fault         apisim.Fault // the fault of every call; NoFault means that writes are slow
	lasts         time.Duration
	resource      schema.GroupVersionResource // the resource whose calls suffer; the zero value means all
	endsOnRestart bool                        // whether a restart of the program ends the outage
	words         string
}

// outages maps the N of each deviation of the kind [plan.Outage] to its outage.
var outages = map[int]outage{
	plan.HalfHour:   {fault: apisim.Unreachable, lasts: 30 * time.Minute, words: "every call is refused"},
	plan.Busy:       {fault: apisim.Throttled, lasts: 3 * time.Minute, words: "every call is answered with 429"},
	plan.SlowWrites: {lasts: 5 * time.Minute, words: "every write is slow"},
	plan.Unknown: {
		fault: apisim.Unauthorized, lasts: 2 * time.Minute, endsOnRestart: true, words: "every call is answered with 401",
	},
}

// recovery is the minimum time that a program has to recover from a long
// outage. client-go's back-off reaches 1,000 seconds, and may have begun before
// the outage.
const recovery = 20 * time.Minute

// begin begins an outage. After a long outage, the program has as much time to
// recover as the outage lasted, and at least 20 minutes.
func (d *delays) begin(o outage) {
	d.outage, d.outageTill = o, time.Now().Add(o.lasts)
	if o.lasts > d.o.Rest/4 {
		d.healed = d.outageTill.Add(max(o.lasts, recovery))
	}
	d.line("DOWN      the server: " + o.words)
}

// refuse begins a short outage. It ends so early that a program with
// exponential back-off retries before it counts as at rest.
func (d *delays) refuse() {
	d.begin(outage{fault: apisim.Unreachable, lasts: min(shortOutage, d.o.Rest/4), words: "every call is refused"})
}

// suffers returns the fault that a call gets now because of an outage, or
// NoFault.
func (d *delays) suffers(c apisim.Call) apisim.Fault {
	if d.tail || !time.Now().Before(d.outageTill) || !d.outage.resource.Empty() && d.outage.resource != c.Resource {
		return apisim.NoFault
	}
	return d.outage.fault
}

// slows holds back each write once while writes are slow, and reports whether
// it has just done so.
func (d *delays) slows(a apisim.Action) bool {
	slow := d.outage.words != "" && d.outage.fault == apisim.NoFault && time.Now().Before(d.outageTill)
	if !slow || !a.Call.Write() || d.slowed[a.CallID()] {
		return false
	}
	d.slowed[a.CallID()], d.calls[a.CallID()] = true, time.Now()
	d.line("HELD BACK " + describe(a))
	return true
}

// renew restarts the program at the end of an outage that only a restart ends.
// It reports whether it has restarted the program.
func (r *run) renew() bool {
	if !r.delays.outage.endsOnRestart || time.Now().Before(r.delays.outageTill) || stacks.Syncing() {
		return false
	}
	r.delays.outage.endsOnRestart = false
	r.line("STOP      the program, which gets new credentials")
	for _, p := range r.fleet.replicas {
		if !p.halted && p.bootsAt.IsZero() {
			p.stop()
		}
	}
	return true
}
