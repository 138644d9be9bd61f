package reconcile

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// write is one write of a reconcile, as the transport saw it, or as [Wrote] or
// [Deleted] reported it.
type write struct {
	object  metav1.Object // as the server answered, with its name at least; never nil
	before  metav1.Object // the cached state that it changed; nil if there was none
	deleted bool

	outcome  ownwrites.Outcome
	resource schema.GroupResource // empty if it was reported
	notes    []*note              // what the caches have shown since before it was sent
	// whenAnswered calls f with the write as it was answered; nil if it was before
	// the reconcile ended.
	whenAnswered func(f func(write))
}

func (w *write) key() Key { return Key{Namespace: w.object.GetNamespace(), Name: w.object.GetName()} }

// request is a write that was sent. The reconcile's mu guards it.
type request struct {
	write write // as far as it is known
	ended bool
	late  func(write) // to call when it is answered, after the end of the reconcile
}

// Wrote reports a write of a client without a transport of package cluster.
func (t *turnContext) Wrote(obj metav1.Object) {
	w := write{object: obj, outcome: ownwrites.Written}
	if ordered(obj.GetResourceVersion()) && isRemoved(obj) {
		w.outcome = ownwrites.Removed
		if kindOf(obj) == "Namespace" { // it may have finalizers in its spec
			w.outcome = ownwrites.Uncertain
		}
	}
	w.before = t.control.cachedBefore(&w)
	t.record(w)
}

// Deleted reports a delete of a client without a transport of package cluster.
func (t *turnContext) Deleted(obj metav1.Object) {
	t.record(write{object: obj, deleted: true, outcome: ownwrites.Accepted})
}

// FieldManager is the default of package patch.
func (t *turnContext) FieldManager() string { return t.control.options.FieldManager }

// Sending is called by a transport of package cluster before it sends a write.
func (t *turnContext) Sending(w ownwrites.Write) (ended func(ownwrites.Outcome, *answer.Object)) {
	object := &answer.Object{Unlabelled: true}
	object.Kind, object.Namespace, object.Name = t.control.kindOfResource(w.Resource), w.Namespace, w.Name
	r := &request{write: write{object: object, deleted: w.Delete, outcome: ownwrites.Uncertain, resource: w.Resource}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return func(ownwrites.Outcome, *answer.Object) {}
	}
	r.write.notes = t.control.fresh.note(&r.write)
	t.requests = append(t.requests, r)
	return func(outcome ownwrites.Outcome, object *answer.Object) { t.answered(r, outcome, object) }
}

// answered notes what became of a request.
func (t *turnContext) answered(r *request, outcome ownwrites.Outcome, object *answer.Object) {
	w := r.write
	w.outcome = outcome
	if object != nil {
		object.Kind = cmp.Or(w.object.(*answer.Object).Kind, object.Kind, w.resource.Resource)
		w.object = object
		w.before = t.control.cachedBefore(&w)
	}
	t.mu.Lock()
	r.write, r.ended = w, true
	ended, late := t.ended, r.late
	if !ended {
		t.requests = slices.DeleteFunc(t.requests, func(other *request) bool { return other == r })
		if outcome != ownwrites.Refused {
			t.writes = append(t.writes, w)
		}
	}
	t.mu.Unlock()
	switch {
	case late != nil:
		late(w)
	case !ended && outcome == ownwrites.Refused:
		t.control.fresh.forgetNotes(w.notes)
	}
}

// record notes a write that was reported. If the transport has seen it, only the
// whole object is new.
func (t *turnContext) record(w write) {
	_ = w.key() // of a nil object it panics, here and now: that is the reconcile's fault
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.writes {
		if known := &t.writes[i]; known.isReportedBy(&w) {
			if !w.deleted {
				known.object = w.object
			}
			return
		}
	}
	t.writes = append(t.writes, w)
}

// isReportedBy reports whether w, which the transport has seen, is the write that
// report is about.
func (w *write) isReportedBy(report *write) bool {
	if w.resource.Resource == "" || w.object.GetUID() == "" || w.object.GetUID() != report.object.GetUID() {
		return false
	}
	return w.deleted && report.deleted || w.object.GetResourceVersion() == report.object.GetResourceVersion()
}

// end cancels what still uses the reconcile's context and returns its writes,
// those that have not been answered among them. Writes that begin later are the
// next reconcile's business: they have no key to hold.
func (t *turnContext) end() []write {
	t.mu.Lock()
	t.ended = true
	writes := t.writes
	for _, r := range t.requests {
		w := r.write
		w.whenAnswered = func(f func(write)) { t.whenAnswered(r, f) }
		writes = append(writes, w)
	}
	cancel := t.cancel
	t.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	return writes
}

// whenAnswered calls f with the write of r once it is answered.
func (t *turnContext) whenAnswered(r *request, f func(write)) {
	t.mu.Lock()
	if !r.ended {
		r.late = f
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	f(r.write)
}

// isRemoved reports whether a write has left nothing for a deleted object to wait
// for: the server has removed it, and has answered with the resourceVersion of
// before.
func isRemoved(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// Wrote reports that this reconcile has created or changed obj, as the server
// returned it: the controller's caches must have seen this before the next
// reconcile of the same key. Clients of package cluster and package patch report
// by themselves; call Wrote after a write of any other client, such as a fake.
// Outside a reconcile it does nothing.
func Wrote(ctx context.Context, obj metav1.Object) { ownwrites.Wrote(ctx, obj) }

// Deleted reports that the server has accepted a delete of obj in this
// reconcile, as [Wrote] does for other writes. The caches have seen it when the
// object with that UID is removed or marked for deletion.
func Deleted(ctx context.Context, obj metav1.Object) { ownwrites.Deleted(ctx, obj) }

// maxOutputs bounds the kinds that are remembered: a controller of any kinds
// must not make them a leak.
const maxOutputs = 100

// outputs are the kinds that a controller has written.
type outputs struct {
	mu    sync.Mutex // guards kinds
	kinds map[string]struct{}
}

// add is called for each write, which has cost a request.
func (o *outputs) add(writes []write) {
	if len(writes) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range writes {
		kind := kindOf(w.object)
		if _, ok := o.kinds[kind]; ok || len(o.kinds) >= maxOutputs {
			continue
		}
		if o.kinds == nil {
			o.kinds = map[string]struct{}{}
		}
		o.kinds[kind] = struct{}{}
	}
}

func (o *outputs) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.kinds))
}

// kindOf returns the kind that obj says it has, or else the name of its type.
func kindOf(obj metav1.Object) string {
	if object, ok := obj.(runtime.Object); ok {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
			return kind
		}
	}
	return reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
}
