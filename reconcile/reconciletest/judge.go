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

// judge sees every call that the server serves and every write that it commits,
// and holds the program against them.
//
// Its hooks run in the goroutine that made the call or write, one at a time,
// while the run waits: no lock is needed.
type judge struct {
	*core
	several bool // there is more than one replica
	answers *answers
	lasting *lasting

	current  *call // that is being served
	acting   bool  // an actor writes
	quiet    bool  // the program has restarted at rest: nothing is left to write
	created  map[types.UID]output
	written  map[types.UID]output          // objects of others that the program wrote to
	reported map[types.UID]bool            // objects whose status the program wrote
	alive    map[string]int                // by name: how many objects of the program there are
	versions []int64                       // of the writes to resources that the program watches
	wanted   map[types.UID]bool            // objects that were there before a restart with caches of the past
	rivals   map[types.UID]bool            // objects that another client wrote just before the program did
	claimed  map[types.UID]bool            // objects whose foreign field the program itself has sent
	leases   map[types.NamespacedName]bool // that the program has written
	leader   string                        // the client that took the Lease last
}

// newJudge returns a judge for a run that has not started.
func newJudge(r *core, several bool) *judge {
	return &judge{
		core: r, several: several, answers: &answers{core: r, line: -1}, lasting: &lasting{core: r},
		created: map[types.UID]output{}, written: map[types.UID]output{},
		reported: map[types.UID]bool{}, alive: map[string]int{},
		rivals: map[types.UID]bool{}, claimed: map[types.UID]bool{}, leases: map[types.NamespacedName]bool{},
	}
}

// extra makes an actor an action of the scheduler, and adds its writes to its
// line of the trace.
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

// acted adds an actor's writes to the last line of the trace.
func (r *judge) acted(e apisim.Event, resource string) {
	last := len(r.out.lines) - 1
	if !r.acting || last < 0 {
		return
	}
	verb := e.Call.Verb
	if e.Call.Subresource != "" {
		verb += " " + e.Call.Subresource + " of"
	}
	what := fmt.Sprintf(": %s %s %s", verb, resource, e.Key)
	if !strings.HasSuffix(r.out.lines[last], what) { // a Pod that is removed is written twice
		r.out.lines[last] += what
	}
}

// called sees every call of the program that the server serves.
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

// committed gets every write: of the program, of actors and of steps. It checks
// Always last, so that violations of the other oracles are found first.
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
	r.acted(e, resource)
	if e.Call.Client == apisim.CollectorClient {
		r.collected = len(r.out.lines)
	}
	switch {
	case ofProgram(e.Call.Client):
		r.checkLeader(e)
		r.wrote(e, resource, free)
	case !free:
		r.quiet, r.wanted = false, nil // the program may have to write again
		r.served(e, resource)
	}
	if r.c.Always != nil && !r.old && r.out.finding == nil && r.out.changed == "" {
		if err := ask(r.c.Always, r.world); err != nil {
			r.find(report.Always, r.why(report.Seen{}), fmt.Sprintf("after %s %s %s: %v",
				strings.ToLower(string(e.Type)), resource, e.Key, err))
		}
	}
}

// wrote judges a write of the program, and records it: only recorded objects
// are deleted and edited later, and only as many creations and deletions as
// without faults are allowed.
func (r *judge) wrote(e apisim.Event, resource string, free bool) {
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
	if e.Old != nil && r.wanted[e.Old.GetUID()] && strings.HasPrefix(e.Call.Verb, "delete") {
		r.find(report.Past, report.WrongObject, fmt.Sprintf(
			"all was done, and a restart with caches of the past deletes %s %s", resource, e.Key))
		return
	}
	if e.Old != nil && e.New != nil && r.rivals[e.New.GetUID()] {
		if lost := missing(state.Foreign(e.New), state.Foreign(e.Old)); lost != "" {
			r.find(report.Lost, report.Overwrites, fmt.Sprintf(
				"it overwrites the fields that another client has just written in %s %s, %s", resource, e.Key, lost))
		}
	}
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
	r.sent(e, resource)
	r.count(e, resource+" "+stem(e))
}

// count counts the creations and deletions of what.
func (r *judge) count(e apisim.Event, what string) {
	switch e.Type {
	case watch.Added:
		r.alive[what]++
		r.out.counts[atOnce+what] = max(r.out.counts[atOnce+what], r.alive[what])
	case watch.Deleted:
		r.out.counts[deletes+what]++
	}
}

// wroteAgain reports whether a restart has written although all was done. After
// a change of an input it may have found what follows from that.
func (r *judge) wroteAgain(e apisim.Event, resource string) bool {
	write := e.Call.Verb + " " + resource + " " + e.Key.String()
	switch {
	case r.tail && r.out.changed != "":
		r.unwoken(write)
		return false
	case r.tail || r.quiet:
		r.find(report.Tail, report.Again(r.given, e.Call.Verb), "all was done, and a restart wrote again: "+write)
		return true
	}
	return false
}

// The counters of each name.
const atOnce, deletes = "at once there are ", "it deletes "

// served records that another client has written to an object of the program:
// the object is more than a lock, and the program cannot restore the contents
// that a step has written.
func (r *judge) served(e apisim.Event, resource string) {
	if e.New == nil {
		return
	}
	if made, ours := r.created[e.New.GetUID()]; ours {
		r.out.kept[resource+" "+stem(e)] = true
		made.stepped = made.stepped || !r.acting
		r.created[e.New.GetUID()] = made
	}
}

// keep notes which of the program's objects there are at rest.
func (r *judge) keep() {
	for what, n := range r.alive {
		r.out.kept[what] = r.out.kept[what] || n > 0
	}
}

// sent records the contents that the program itself gives an object: a value of
// an output that may be edited, and the field of the spec that can be set for
// another client.
func (r *judge) sent(e apisim.Event, resource string) {
	if e.Type == watch.Added {
		r.created[e.New.GetUID()] = output{resource: resource, key: e.Key.String()}
	}
	if e.New == nil || e.Call.Subresource != "" {
		return
	}
	uid, field := e.New.GetUID(), foreign[resource].field
	made, ours := r.created[uid]
	if field == "" && (!ours || made.leaf != nil) {
		return
	}
	own := ownOf(bodyOf(e), e)
	if ours && made.leaf == nil {
		made.leaf, made.value = leaf(r.c, r.ignore, resource, own)
		r.created[uid] = made
	}
	if _, named, _ := unstructured.NestedFieldNoCopy(own, "spec", field); named {
		r.claimed[uid] = true
	}
}

// checkLeader holds writes of several replicas against the Lease, if there is
// exactly one.
func (r *judge) checkLeader(e apisim.Event) {
	if !r.several {
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
	late := slices.ContainsFunc(r.plan, func(d plan.Deviation) bool { return d.Fault == apisim.Late })
	if state.Ignored(e.Resource.GroupResource()) || len(r.leases) != 1 || late || r.leader == e.Call.Client {
		return
	}
	r.find(report.Leader, report.NotLeader, fmt.Sprintf("%s wrote %s %s, and the holder of the Lease is %q",
		e.Call.Client, e.Resource.GroupResource(), e.Key, r.leader))
}

// stem is the object's namespace and name, with * in place of a generated part.
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

// existing returns those objects that still exist, in the order of resources
// and names.
func (r *judge) existing(objects map[types.UID]output) []output {
	var all []output
	for _, res := range r.sim.Resources() {
		for _, o := range r.sim.Objects(res.GVR()) {
			if known, ok := objects[o.GetUID()]; ok {
				known.key = state.KeyOf(o)
				all = append(all, known)
			}
		}
	}
	return all
}

// checkStatus holds the statuses that the program wrote against the generation
// that they are of.
func (r *judge) checkStatus() {
	for _, res := range r.sim.Resources() {
		for _, o := range r.sim.Objects(res.GVR()) {
			resource := res.GVR().GroupResource().String()
			if text := state.Outdated(o); text != "" && r.reported[o.GetUID()] && !r.ignore.Status(resource) {
				r.find(report.Status, r.why(report.Seen{}), fmt.Sprintf("%s %s is at rest, and %s", resource, state.KeyOf(o), text))
				return
			}
		}
	}
}

// missing names wanted objects that do not exist; "" if there are none.
func missing(have, want map[string]bool) string {
	var lost []string
	for what := range want {
		if !have[what] {
			lost = append(lost, what)
		}
	}
	slices.Sort(lost)
	return strings.Join(lost, ", ")
}

var errGoexit = errors.New("it has ended its goroutine, as FailNow, Fatal and require do: it has to return an error")

// ask calls Goal or Always, whose failures are errors: FailNow would end the
// goroutine that drives the run.
func ask(f func(w *World) error, w *World) error {
	answer := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { answer <- err }()
		err = f(w)
	}()
	return <-answer
}
