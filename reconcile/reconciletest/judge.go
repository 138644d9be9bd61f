package reconciletest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// judge gets every call that the server serves and every write that it commits,
// and checks the program's calls and writes against the oracles.
//
// Its hooks run in the goroutine that made the call or write, one at a time,
// while the run waits: no lock is needed.
type judge struct {
	*core
	replicated bool // whether there is more than one replica
	answers    *answers
	lasting    *lasting

	current   *call // the call that is being served
	acting    bool  // whether an actor is writing
	quiet     bool  // whether the program has restarted at rest, so it has no work left
	created   map[types.UID]output
	written   map[types.UID]output          // objects of others that the program wrote to
	reported  map[types.UID]bool            // objects whose status the program wrote
	alive     map[string]int                // the number of existing objects that the program has created; see count
	versions  []int64                       // the versions of the writes to resources that the program watches
	wanted    map[types.UID]bool            // objects that the program must not delete at present; see protect
	rivals    map[types.UID]bool            // objects that another client wrote just before a call; see chooser.rival
	claimed   map[string]bool               // foreign fields that the program itself has sent, by claimOf
	undoable  []int64                       // the versions of the writes since the last write of a step
	stepMarks map[types.UID]map[string]bool // the labels and annotations that steps have added to objects of the program
	born      map[types.UID]bool            // all objects that were written since the start
	leases    map[types.NamespacedName]bool // the Leases that the program has written
	leader    string                        // the client that took the Lease last
}

// newJudge returns a judge for a run that has not started.
func newJudge(r *core, replicated bool) *judge {
	return &judge{
		core: r, replicated: replicated, answers: &answers{core: r, line: -1}, lasting: &lasting{core: r},
		created: map[types.UID]output{}, written: map[types.UID]output{},
		reported: map[types.UID]bool{}, alive: map[string]int{},
		rivals: map[types.UID]bool{}, claimed: map[string]bool{}, leases: map[types.NamespacedName]bool{},
		born: map[types.UID]bool{}, stepMarks: map[types.UID]map[string]bool{},
	}
}

// extra returns an action of the scheduler for an actor. While the actor acts,
// its writes are added to its trace line.
func (r *judge) extra(a Actor) *apisim.Extra {
	return &apisim.Extra{
		Name: a.Name, Enabled: func() bool { return a.Enabled(r.world) },
		Do: func() {
			r.acting = true
			a.Do(r.world)
			r.acting = false
		},
	}
}

// acted adds a write of the acting actor to the last line of the trace.
func (r *judge) acted(e apisim.Event, resource string) {
	last := len(r.out.lines) - 1
	if !r.acting || last < 0 {
		return
	}
	verb := e.Call.Verb
	if e.Call.Subresource != "" {
		verb += " " + e.Call.Subresource + " of"
	}
	text := fmt.Sprintf(": %s %s %s", verb, resource, e.Key)
	if !strings.HasSuffix(r.out.lines[last], text) { // a Pod that is removed is written twice
		r.out.lines[last] += text
	}
}

// called gets every call of the program before the server serves it. It always
// returns nil, so the call is not denied.
func (r *judge) called(c apisim.Call) error {
	if r.old {
		return nil
	}
	r.out.rules.Add(c)
	if lacks := r.granted.Missing(c); lacks != "" {
		r.find(report.Role, report.NotGranted, lacks)
	}
	resource := c.Resource.GroupResource().String()
	switch {
	case c.Verb == "watch":
		r.out.uses.watched[resource] = true
	case !c.Write() && c.Subresource == "" && !state.Ignored(c.Resource.GroupResource()):
		r.out.uses.read[resource] = true
	}
	return nil
}

// committed gets every write of the program, of actors and of steps. It checks
// Always last, because violations of the other oracles should be found first.
func (r *judge) committed(e apisim.Event) {
	resource, ignored := e.Resource.GroupResource().String(), state.Ignored(e.Resource.GroupResource())
	free := ignored || !r.ignore.Matters(resource, e.Old, e.New)
	if !free {
		r.progress = time.Now()
	}
	if r.out.uses.watched[resource] && !ignored {
		r.versions = append(r.versions, e.Version)
	}
	if e.New == nil {
		if _, made := r.created[e.Old.GetUID()]; made {
			r.alive[resource+" "+stem(e)]--
		}
	}
	if r.undoable = append(r.undoable, e.Version); !isProgram(e.Call.Client) && !r.acting &&
		e.Call.Client != apisim.CollectorClient {
		r.undoable = nil
	}
	for _, o := range []*unstructured.Unstructured{e.Old, e.New} {
		if o != nil {
			r.born[o.GetUID()] = true
		}
	}
	r.acted(e, resource)
	if e.Call.Client == apisim.CollectorClient {
		r.collected = len(r.out.lines)
	}
	switch {
	case isProgram(e.Call.Client):
		r.checkLeader(e)
		r.checkOwners(e, resource)
		r.checkWrite(e, resource, free)
	case !free:
		r.quiet, r.wanted = false, nil // the program may have to write again
		r.recordOther(e, resource)
	}
	if r.c.Always != nil && !r.old && r.out.finding == nil && r.out.changed == "" {
		// Always is called even if its result does not count, because actors of
		// the case may act on what it has noted outside of the server.
		if err := ask(r.c.Always, r.world); err != nil && r.judges() {
			r.find(report.Always, r.reason(report.Seen{}), fmt.Sprintf("after %s %s %s: %v",
				strings.ToLower(string(e.Type)), resource, e.Key, err))
		}
	}
}

// deletesWanted reports whether the event is the deletion of an object that
// protect has recorded. If so, it records a finding.
func (r *judge) deletesWanted(e apisim.Event, resource string) bool {
	if e.Old == nil || !r.wanted[e.Old.GetUID()] || !strings.HasPrefix(e.Call.Verb, "delete") {
		return false
	}
	occasion, reason := "a restart with old caches", report.WrongObject
	if r.given.Has(plan.Unserved) {
		occasion, reason = "the program", report.Misled
	}
	r.find(report.Past, reason, fmt.Sprintf("all was done, and %s deletes %s %s", occasion, resource, e.Key))
	return true
}

// protect records all objects that exist now. Caches are about to be stale, or
// a resource is about to be unserved for a while, and the program must not take
// that for deletions. It must not delete the objects until another client has
// written an object, or until it is at rest again.
func (r *judge) protect() {
	r.wanted = map[types.UID]bool{}
	for _, res := range r.sim.Resources() {
		for _, o := range r.sim.Objects(res.GVR()) {
			r.wanted[o.GetUID()] = true
		}
	}
}

// checkWrite checks and records a write of the program. If free is set, the
// write changes only values that the comparison ignores, and is not checked. In
// later runs, another client deletes and edits the recorded objects. Runs with
// faults are also compared with the run without faults by two recorded numbers:
// how many objects existed at once, and how many were deleted.
func (r *judge) checkWrite(e apisim.Event, resource string, free bool) {
	if r.current != nil {
		r.current.effect = true
	}
	if !state.Ignored(e.Resource.GroupResource()) {
		r.out.wroteAt = len(r.out.lines) - 1
	}
	if free {
		if !r.old && !state.Ignored(e.Resource.GroupResource()) {
			r.out.uses.written[resource] = true
		}
		return
	}
	if r.wroteAgain(e, resource) {
		return
	}
	if r.deletesWanted(e, resource) {
		return
	}
	if e.Old != nil && e.New != nil && r.rivals[e.New.GetUID()] {
		if lost := missing(state.Foreign(e.New, r.foreign[resource]), state.Foreign(e.Old, r.foreign[resource])); lost != "" {
			r.find(report.Lost, report.Overwrites, fmt.Sprintf(
				"it overwrites the fields that another client has just written in %s %s, %s", resource, e.Key, lost))
		}
	}
	r.checkSteps(e, resource)
	r.out.writes++
	if !r.old && (e.Call.Subresource == "" || e.Call.Subresource == "status") {
		r.out.uses.written[resource] = true
	}
	if e.New != nil && r.created[e.New.GetUID()].resource == "" {
		r.written[e.New.GetUID()] = output{resource: resource, key: e.Key.String()}
	}
	if e.New != nil && e.New.Object["status"] != nil {
		r.reported[e.New.GetUID()] = true
	}
	r.recordSent(e, resource)
	r.count(e, resource+" "+stem(e))
}

// count updates two counters of the objects with this resource and stem, such
// as "pods default/web-*": the largest number that existed at once, and the
// number of deletions.
func (r *judge) count(e apisim.Event, name string) {
	switch e.Type {
	case watch.Added:
		r.alive[name]++
		r.out.counts[atOnce+name] = max(r.out.counts[atOnce+name], r.alive[name])
	case watch.Deleted:
		r.out.counts[deletes+name]++
	}
}

// wroteAgain reports whether a restart has made this write although no work was
// left. If so, it records a finding. After a change of an input, the write may
// be the reaction to the change. In that case, wroteAgain records the write
// with recordIgnored and returns false.
func (r *judge) wroteAgain(e apisim.Event, resource string) bool {
	write := e.Call.Verb + " " + resource + " " + e.Key.String()
	switch {
	case r.tail && r.out.changed != "":
		r.recordIgnored(write)
		return false
	case r.tail || r.quiet:
		reason := report.ReasonAfterRestart(r.given, e.Call.Verb)
		r.find(report.Tail, reason, "all was done, and a restart wrote again: "+write)
		return true
	}
	return false
}

// atOnce and deletes are the prefixes of the names of the counters in
// outcome.counts.
const atOnce, deletes = "at once there are ", "it deletes "

// recordOther records that another client has written to an object that the
// program created. Such an object is not temporary, unlike a lock. If a step of
// the workload made the write, later runs do not delete the object, because the
// program could not restore what the step wrote.
func (r *judge) recordOther(e apisim.Event, resource string) {
	if e.New == nil {
		return
	}
	if made, isOwn := r.created[e.New.GetUID()]; isOwn {
		r.out.permanent[resource+" "+stem(e)] = true
		r.stepped(e)
		made.stepped = made.stepped || !r.acting
		r.created[e.New.GetUID()] = made
	}
}

// recordOutputs records which of the program's objects exist at rest.
func (r *judge) recordOutputs() {
	for name, n := range r.alive {
		r.out.permanent[name] = r.out.permanent[name] || n > 0
	}
}

// recordSent records which values of an object the program itself has sent. In
// later runs, another client edits one of these values, or sets a field that
// the program has never set.
func (r *judge) recordSent(e apisim.Event, resource string) {
	if e.Type == watch.Added {
		r.created[e.New.GetUID()] = output{resource: resource, key: e.Key.String()}
	}
	if e.New == nil || e.Call.Subresource != "" {
		return
	}
	uid, fields := e.New.GetUID(), r.foreign[resource]
	entry, isOutput := r.created[uid]
	if len(fields) == 0 && (!isOutput || entry.leaf != nil) {
		return
	}
	body := bodyOf(e)
	if isOutput && entry.leaf == nil {
		entry.leaf, entry.value = leaf(r.c, r.ignore, resource, ownOf(body, e))
		r.created[uid] = entry
	}
	for _, f := range fields {
		var oldValues []any
		if e.Old != nil {
			oldValues = f.Values(e.Old.Object)
		}
		if sent := f.Values(body); len(sent) > 0 && !slices.Equal(sent, oldValues) {
			r.claimed[claimOf(uid, f)] = true
		}
	}
}

// isOutput reports whether the program has created an object.
func (r *judge) isOutput(object map[string]any) bool {
	_, isOwn := r.created[(&unstructured.Unstructured{Object: object}).GetUID()]
	return isOwn
}

// claimOf returns the key of an object's field in judge.claimed.
func claimOf(uid types.UID, f state.ForeignField) string { return string(uid) + " " + f.String() }

// checkLeader checks that a write comes from the replica that holds the Lease,
// if there are several replicas and exactly one Lease. It checks nothing if the
// plan has a late call.
func (r *judge) checkLeader(e apisim.Event) {
	if !r.replicated {
		return
	}
	if e.Resource.Resource == "leases" {
		r.leases[e.Key] = true
		r.leader = ""
		if e.New != nil {
			if holder, _, _ := unstructured.NestedString(e.New.Object, "spec", "holderIdentity"); holder != "" {
				r.leader = e.Call.Client
			}
		}
		return
	}
	delayed := slices.ContainsFunc(r.plan, func(d plan.Deviation) bool { return d.Fault == apisim.Late })
	if state.Ignored(e.Resource.GroupResource()) || len(r.leases) != 1 || delayed || r.leader == e.Call.Client {
		return
	}
	r.find(report.Leader, report.NotLeader, fmt.Sprintf("%s wrote %s %s, and the holder of the Lease is %q",
		e.Call.Client, e.Resource.GroupResource(), e.Key, r.leader))
}

// stem returns the object's namespace and name, with * in place of a generated
// part.
func stem(e apisim.Event) string {
	o := e.New
	if o == nil {
		o = e.Old
	}
	if prefix, ok := state.Generated(o); ok {
		return e.Key.Namespace + "/" + prefix + "*"
	}
	return e.Key.String()
}

// existing returns the objects that still exist, ordered by resource and name.
func (r *judge) existing(objects map[types.UID]output) []output {
	var outputs []output
	for _, res := range r.sim.Resources() {
		for _, o := range r.sim.Objects(res.GVR()) {
			if known, ok := objects[o.GetUID()]; ok {
				known.key = state.KeyOf(o)
				outputs = append(outputs, known)
			}
		}
	}
	return outputs
}

// checkStatus checks that each status that the program has written describes
// the current generation of its object.
func (r *judge) checkStatus() {
	for _, res := range r.sim.Resources() {
		for _, o := range r.sim.Objects(res.GVR()) {
			resource := res.GVR().GroupResource().String()
			if text := state.Outdated(o); text != "" && r.reported[o.GetUID()] && !r.ignore.Status(resource) {
				r.find(report.Status, r.reason(report.Seen{}),
					fmt.Sprintf("%s %s is at rest, and %s", resource, state.KeyOf(o), text))
				return
			}
		}
	}
}

// missing returns the keys that are in want but not in have, joined by commas.
// It returns "" if there are no such keys.
func missing(have, want map[string]bool) string {
	var lost []string
	for mark := range want {
		if !have[mark] {
			lost = append(lost, mark)
		}
	}
	slices.Sort(lost)
	return strings.Join(lost, ", ")
}

var errGoexit = errors.New("the function ended its goroutine, as FailNow and require do: return an error instead")

// ask calls Goal or Always in a goroutine of its own and returns the error. If
// the function calls FailNow, which ends its goroutine, ask returns errGoexit.
func ask(f func(w *World) error, w *World) error {
	answer := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { answer <- err }()
		err = f(w)
	}()
	return <-answer
}
