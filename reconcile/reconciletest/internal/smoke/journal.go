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

// leaseFactor, multiplied by the duration of a Lease, is the time until another
// replica can hold the Lease. It is more than 1 because candidates look at the
// Lease only now and then.
const leaseFactor = 5. / 3

// journal records the requests of one trial, and kills the program after its
// writes.
type journal struct {
	mirror     *mirror
	granted    rules.Granted
	replicated bool // whether there is more than one replica
	killsLeft  int
	plan       plan.Plan // the kills, as deviations of an exploration

	mu       sync.Mutex // guards the fields below
	out      outcome
	pending  []*write // writes that have no answer yet, or that the watches have not shown yet
	writes   []*write // the writes that have changed an object
	marks    []mark
	leases   map[types.NamespacedName]*holding
	progress time.Time
	kills    int
	ended    bool // the program has ended and the trace is complete
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

// mark records the length of the trace after a write.
type mark struct {
	version uint64
	lines   int
}

// holding describes the last writer of a Lease. If that writer was killed,
// another replica can hold the Lease from the time in expires on.
type holding struct {
	life    *life
	expires time.Time
}

// read records that the program or another client reads a resource. l is the
// life of the program that has made the request, or nil for another client.
// Only requests of the program are in the trace.
func (j *journal) read(c apisim.Call, l *life) {
	ignored := state.Ignored(c.Resource.GroupResource())
	if !ignored {
		j.mirror.follow(c.Resource.GroupResource())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.allow(c, l)
	if ignored || l == nil || j.ended {
		return
	}
	_, text, _ := strings.Cut(c.String(), " ")
	j.out.lines = append(j.out.lines, "call      "+text+j.suffix(l))
	j.out.calls++
}

// needs records that the program needs the permission for a call. It records a
// finding if Case.Roles do not grant the permission. If l is nil, another
// client has made the call, and needs has no effect.
func (j *journal) needs(c apisim.Call, l *life) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.allow(c, l)
}

// allow is like needs, for a caller that holds the lock.
func (j *journal) allow(c apisim.Call, l *life) {
	if l == nil {
		return
	}
	j.out.rules.Add(c)
	if lacks := j.granted.Missing(c); lacks != "" {
		j.keep(report.Role, report.NotGranted, lacks, len(j.out.lines))
	}
}

func (j *journal) suffix(l *life) string {
	if j.replicated {
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
		w.oldVersion = versionOf(o)
	}
	for _, earlier := range j.writes {
		if earlier.call.Resource.GroupResource() == r && earlier.key() == w.key() {
			w.oldVersion = max(w.oldVersion, earlier.version)
		}
	}
	j.pending = append(j.pending, w)
}

// end records the answer to a write. resp is nil if there was no answer. It may
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
	text := "call      " + w.text + j.suffix(w.life)
	if w.code == 0 || w.code >= http.StatusMultipleChoices {
		text += fmt.Sprintf("   = %d", w.code)
	}
	if w.changed {
		j.out.writes++
		if w.life.tail {
			reason := report.ReasonAfterRestart(j.plan, w.call.Verb)
			j.keep(report.Tail, reason, "all was done, and a restart wrote again: "+w.text, len(j.out.lines)+1)
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

// recordLease records the holder of a Lease, if w has written one. The lock
// must be held.
func (j *journal) recordLease(w *write) {
	if w.call.Resource.Resource != "leases" || !w.changed {
		return
	}
	if previous := j.leases[w.key()]; previous == nil || previous.life != w.life {
		j.progress = time.Now()
	}
	if w.lease.HolderIdentity == "" {
		delete(j.leases, w.key())
		return
	}
	duration := time.Duration(leaseFactor * float64(w.lease.LeaseDurationSeconds) * float64(time.Second))
	j.leases[w.key()] = &holding{life: w.life, expires: time.Now().Add(duration)}
}

func (j *journal) line(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out.lines = append(j.out.lines, text)
}

// find records a finding, unless there already is one.
func (j *journal) find(oracle string, reason report.Reason, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keep(oracle, reason, text, len(j.out.lines))
}

// findAfter records a finding about the write with the given resourceVersion,
// unless there already is a finding.
func (j *journal) findAfter(version uint64, oracle string, reason report.Reason, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	upTo := len(j.out.lines)
	if i := slices.IndexFunc(j.marks, func(m mark) bool { return m.version >= version }); i >= 0 {
		upTo = j.marks[i].lines
	}
	j.keep(oracle, reason, text, upTo)
}

// keep is like find, for a caller that holds the lock. upTo is the number of
// lines of the trace to show.
func (j *journal) keep(oracle string, reason report.Reason, text string, upTo int) {
	if j.out.finding == nil {
		j.out.finding = &report.Finding{Oracle: oracle, Reason: reason, Text: text, UpTo: upTo}
	}
}

// rested marks a rest in the trace.
func (j *journal) rested() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out.restedAt = append(j.out.restedAt, len(j.out.lines))
}

// status returns the number of kills. good is false if there is a finding.
func (j *journal) status() (good bool, kills int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.finding == nil, j.kills
}

func (j *journal) good() bool {
	good, _ := j.status()
	return good
}

// moved records that something has just happened. The program then does not
// count as being at rest.
func (j *journal) moved() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.progress = time.Now()
}

// lastProgress returns the time of the last event that shows that the program
// may not be at rest, such as a write, a start of the program, or a new watch.
func (j *journal) lastProgress() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.mirror.lastCommit(); c != nil && c.time.After(j.progress) {
		return c.time
	}
	return j.progress
}

// writer returns the client that made a write: the name of a replica or, for a
// write that no replica made, the newest manager in managedFields. It returns
// "another client" for a deletion by another client.
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

// awaited describes what still has to happen before the trial is at rest
// although no client writes: a write has to be answered or to be shown by a
// watch, or the Lease of a killed replica has to expire. It returns ""
// otherwise.
func (j *journal) awaited() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending = slices.DeleteFunc(j.pending, func(w *write) bool { return w.changed && j.mirror.shows(w) })
	for _, w := range j.pending {
		return "the watches do not show yet: " + w.text
	}
	for key, h := range j.leases {
		if h.life.killed() && time.Now().Before(h.expires) {
			return fmt.Sprintf("the Lease %s is held by a replica that was killed, and has not expired", key)
		}
	}
	return ""
}

// close ends the trace and returns the writes. Afterwards, awaited no longer
// waits for Leases to expire.
func (j *journal) close() []*write {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended, j.leases = true, map[types.NamespacedName]*holding{}
	return slices.Clone(j.writes)
}
