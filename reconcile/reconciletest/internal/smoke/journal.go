package smoke

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// leaseFactor is how much of a Lease's duration passes until another replica
// has it: candidates look now and then.
const leaseFactor = 5. / 3

// journal records the requests of one trial, and kills the program after its
// writes.
type journal struct {
	mirror    *mirror
	granted   rules.Granted
	several   bool // there is more than one replica
	killsLeft int
	plan      plan.Plan // the kills, in the terms of an exploration

	mu       sync.Mutex // guards the fields below
	out      outcome
	pending  []*write // without an answer yet, or not seen by the watches yet
	writes   []*write // that have changed something
	marks    []mark
	leases   map[types.NamespacedName]*holding
	progress time.Time
	kills    int
	over     bool // the program has ended: the trace is complete
}

// outcome is the result of a trial.
type outcome struct {
	finding  *report.Finding
	lines    []string // the trace
	calls    int
	writes   int
	rules    rules.Set
	restedAt []int // the length of the trace at each rest
}

// mark is the length of the trace after a write.
type mark struct {
	version uint64
	lines   int
}

// holding is the last writer of a Lease, and when the Lease expires if that
// writer is dead.
type holding struct {
	life  *life
	until time.Time
}

// read records a read of the program, or, without a life, of another client.
func (j *journal) read(c apisim.Call, l *life) {
	ignored := state.Ignored(c.Resource.GroupResource())
	if !ignored {
		j.mirror.follow(c.Resource.GroupResource())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.allow(c, l)
	if ignored || l == nil || j.over {
		return
	}
	_, text, _ := strings.Cut(c.String(), " ")
	j.out.lines = append(j.out.lines, "call      "+text+j.of(l))
	j.out.calls++
}

// needs records a rule that the program needs.
func (j *journal) needs(c apisim.Call, l *life) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.allow(c, l)
}

// allow is needs with the lock held.
func (j *journal) allow(c apisim.Call, l *life) {
	if l == nil {
		return
	}
	j.out.rules.Add(c)
	if lacks := j.granted.Missing(c); lacks != "" {
		j.keep(report.Role, report.NotGranted, lacks, len(j.out.lines))
	}
}

func (j *journal) of(l *life) string {
	if j.several {
		return "   of " + l.client
	}
	return ""
}

// begin records a write that is sent to the server now.
func (j *journal) begin(w *write) {
	r := w.call.Resource.GroupResource()
	if !state.Ignored(r) {
		j.mirror.follow(r)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if o := j.mirror.object(r, w.key()); o != nil {
		w.known = versionOf(o)
	}
	for _, earlier := range j.writes {
		if earlier.call.Resource.GroupResource() == r && earlier.key() == w.key() {
			w.known = max(w.known, earlier.version)
		}
	}
	j.pending = append(j.pending, w)
}

// end records the answer to a write, or with nil that there was none. It may
// kill the program.
func (j *journal) end(w *write, resp *http.Response, body []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if resp != nil {
		w.answered(resp.StatusCode, body)
	}
	if w.changed {
		j.writes = append(j.writes, w)
	} else {
		j.pending = slices.DeleteFunc(j.pending, func(p *write) bool { return p == w })
	}
	if w.life == nil {
		return
	}
	defer j.allow(w.call, w.life)
	j.recordLease(w)
	if state.Ignored(w.call.Resource.GroupResource()) {
		return
	}
	j.progress = time.Now()
	j.out.calls++
	text := "call      " + w.text + j.of(w.life)
	if w.code == 0 || w.code >= http.StatusMultipleChoices {
		text += fmt.Sprintf("   = %d", w.code)
	}
	if w.changed {
		j.out.writes++
		if w.life.tail {
			j.keep(report.Tail, report.Again(j.plan, w.call.Verb), "all was done, and a restart wrote again: "+w.text,
				len(j.out.lines)+1)
		}
	}
	if w.changed && !w.life.tail && j.killsLeft > 0 && !w.life.killed() {
		j.kills++
		j.killsLeft--
		text += "   <<< KILLED AFTER"
		w.life.kill()
	}
	j.out.lines = append(j.out.lines, text)
	j.marks = append(j.marks, mark{version: w.version, lines: len(j.out.lines)})
}

// recordLease records the holder of a Lease. The lock is held.
func (j *journal) recordLease(w *write) {
	if w.call.Resource.Resource != "leases" || !w.changed {
		return
	}
	if before := j.leases[w.key()]; before == nil || before.life != w.life {
		j.progress = time.Now()
	}
	if w.lease.HolderIdentity == "" {
		delete(j.leases, w.key())
		return
	}
	duration := time.Duration(leaseFactor * float64(w.lease.LeaseDurationSeconds) * float64(time.Second))
	j.leases[w.key()] = &holding{life: w.life, until: time.Now().Add(duration)}
}

func (j *journal) line(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out.lines = append(j.out.lines, text)
}

// find keeps the first finding.
func (j *journal) find(oracle string, why report.Reason, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keep(oracle, why, text, len(j.out.lines))
}

// findAfter keeps the first finding, which is about a write of that version.
func (j *journal) findAfter(version uint64, oracle string, why report.Reason, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	upTo := len(j.out.lines)
	if i := slices.IndexFunc(j.marks, func(m mark) bool { return m.version >= version }); i >= 0 {
		upTo = j.marks[i].lines
	}
	j.keep(oracle, why, text, upTo)
}

// keep is find with the lock held.
func (j *journal) keep(oracle string, why report.Reason, text string, upTo int) {
	if j.out.finding == nil {
		j.out.finding = &report.Finding{Oracle: oracle, Reason: why, Text: text, UpTo: upTo}
	}
}

// rested marks a rest in the trace.
func (j *journal) rested() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out.restedAt = append(j.out.restedAt, len(j.out.lines))
}

// status reports whether nothing was found yet, and the number of kills.
func (j *journal) status() (good bool, kills int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.finding == nil, j.kills
}

func (j *journal) good() bool {
	good, _ := j.status()
	return good
}

// moved keeps the program from being at rest.
func (j *journal) moved() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.progress = time.Now()
}

// lastProgress is when something was last written, or the program last started.
func (j *journal) lastProgress() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.mirror.lastCommit(); c != nil && c.at.After(j.progress) {
		return c.at
	}
	return j.progress
}

// writer returns the replica that made a write.
func (j *journal) writer(c *commit) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.writes {
		if w.version == c.version && w.life != nil {
			return w.life.client
		}
	}
	name, last := "another client", time.Time{}
	if c.new == nil {
		return name
	}
	for _, f := range c.new.GetManagedFields() {
		if f.Time != nil && !f.Time.Time.Before(last) {
			name, last = f.Manager, f.Time.Time
		}
	}
	return name
}

// unanswered reports whether a write has no answer yet.
func (j *journal) unanswered() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.pending, func(w *write) bool { return !w.changed })
}

// awaited describes pending events while nothing is written; "" means none.
func (j *journal) awaited() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending = slices.DeleteFunc(j.pending, func(w *write) bool { return w.changed && j.mirror.shows(w) })
	for _, w := range j.pending {
		return "the watches do not show yet: " + w.text
	}
	for key, h := range j.leases {
		if h.life.killed() && time.Now().Before(h.until) {
			return fmt.Sprintf("the Lease %s is held by a replica that was killed, and has not expired", key)
		}
	}
	return ""
}

// close ends the trace, and returns the writes. Leases are no longer waited for.
func (j *journal) close() []*write {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over, j.leases = true, map[types.NamespacedName]*holding{}
	return slices.Clone(j.writes)
}
