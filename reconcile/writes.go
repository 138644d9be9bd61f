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

	outcome   ownwrites.Outcome
	resource  schema.GroupResource // empty if it was reported
	baselines []*baseline          // what the caches have shown since before it was sent
	// whenAnswered calls f with the write as it was answered; nil if it was before
	// the reconcile ended.
	whenAnswered func(f func(write))
}

func (w *write) key() Key { return keyOf(w.object) }

// recorder records the writes of one reconcile. It is an ownwrites.Observer, and
// safe for concurrent use.
//
// A transport calls Sending before a request, and its result with the answer.
// Clients without such a transport report with Wrote and Deleted after the answer. A
// write that both report is recorded once.
type recorder struct {
	control *Controller

	mu       sync.Mutex // guards what follows
	closed   bool       // the reconcile has ended
	writes   []write
	requests []*request // that have not been answered
}

// request is a write that was sent. The recorder's mu guards it.
type request struct {
	write write // as far as it is known
	ended bool
	late  func(write) // to call when it is answered after the end of the reconcile
}

// Wrote reports a write of a client without a transport of package cluster.
func (r *recorder) Wrote(obj metav1.Object) {
	w := write{object: obj, outcome: ownwrites.Written}
	if ordered(obj.GetResourceVersion()) && isRemoved(obj) {
		w.outcome = ownwrites.Removed
		if kindOf(obj) == "Namespace" { // it may have finalizers in its spec
			w.outcome = ownwrites.Uncertain
		}
	}
	w.before = r.control.sources.cachedBefore(&w)
	r.record(w)
}

// Deleted reports a delete of a client without a transport of package cluster.
func (r *recorder) Deleted(obj metav1.Object) {
	r.record(write{object: obj, deleted: true, outcome: ownwrites.Accepted})
}

// FieldManager returns the default of package patch.
func (r *recorder) FieldManager() string { return r.control.options.FieldManager }

// Sending is called by a transport of package cluster before it sends a write.
func (r *recorder) Sending(w ownwrites.Write) (ended func(ownwrites.Outcome, *answer.Object)) {
	object := &answer.Object{Unlabelled: true}
	object.Kind, object.Namespace, object.Name = r.control.sources.kindOfResource(w.Resource), w.Namespace, w.Name
	req := &request{write: write{object: object, deleted: w.Delete, outcome: ownwrites.Uncertain, resource: w.Resource}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return func(ownwrites.Outcome, *answer.Object) {}
	}
	req.write.baselines = r.control.fresh.takeBaselines(&req.write)
	r.requests = append(r.requests, req)
	return func(outcome ownwrites.Outcome, object *answer.Object) { r.answered(req, outcome, object) }
}

// answered records what became of a request.
func (r *recorder) answered(req *request, outcome ownwrites.Outcome, object *answer.Object) {
	w := req.write
	w.outcome = outcome
	if object != nil {
		object.Kind = cmp.Or(w.object.(*answer.Object).Kind, object.Kind, w.resource.Resource)
		w.object = object
		w.before = r.control.sources.cachedBefore(&w)
	}
	r.mu.Lock()
	req.write, req.ended = w, true
	closed, late := r.closed, req.late
	if !closed {
		r.requests = slices.DeleteFunc(r.requests, func(other *request) bool { return other == req })
		if outcome != ownwrites.Refused {
			r.writes = append(r.writes, w)
		}
	}
	r.mu.Unlock()
	switch {
	case late != nil:
		late(w)
	case !closed && outcome == ownwrites.Refused:
		r.control.fresh.dropBaselines(w.baselines)
	}
}

// record adds a write that was reported. If the transport has recorded it, only
// the whole object is new.
func (r *recorder) record(w write) {
	_ = w.key() // panics if the object is nil: here, where the reconciler is to blame
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.writes {
		if known := &r.writes[i]; known.isReportedBy(&w) {
			if !w.deleted {
				known.object = w.object
			}
			return
		}
	}
	r.writes = append(r.writes, w)
}

// close returns the writes of the reconcile, those that have not been answered among
// them. Later writes are not recorded.
func (r *recorder) close() []write {
	r.mu.Lock()
	r.closed = true
	writes := r.writes
	for _, req := range r.requests {
		w := req.write
		w.whenAnswered = func(f func(write)) { r.whenAnswered(req, f) }
		writes = append(writes, w)
	}
	r.mu.Unlock()
	return writes
}

// whenAnswered calls f with the write of req once it is answered.
func (r *recorder) whenAnswered(req *request, f func(write)) {
	r.mu.Lock()
	if !req.ended {
		req.late = f
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	f(req.write)
}

// isReportedBy reports whether w, which the transport has seen, is the write that
// report is about.
func (w *write) isReportedBy(report *write) bool {
	if w.resource.Resource == "" || w.object.GetUID() == "" || w.object.GetUID() != report.object.GetUID() {
		return false
	}
	return w.deleted && report.deleted || w.object.GetResourceVersion() == report.object.GetResourceVersion()
}

// isRemoved reports whether a write has removed the last finalizer of a deleted
// object. Then the server has removed the object, and has answered with the
// resourceVersion of before.
func isRemoved(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// Wrote reports that this reconcile has created or changed obj, as the server
// returned it: the controller's caches must have seen this before the next
// reconcile of the same key. Clients of package cluster and package patch report
// by themselves; call Wrote after a write of any other client, such as a fake.
//
// ctx is that of the reconcile, or derived from it: with any other one, and after
// the reconcile has returned, Wrote does nothing. obj must not be nil, and is
// retained: do not modify it afterwards. Any goroutine of the reconcile may call it.
//
//	pod, err := clientset.CoreV1().Pods(namespace).Create(ctx, desired, metav1.CreateOptions{})
//	if err == nil {
//		reconcile.Wrote(ctx, pod)
//	}
func Wrote(ctx context.Context, obj metav1.Object) { ownwrites.Wrote(ctx, obj) }

// Deleted reports that the server has accepted a delete of obj in this
// reconcile, as [Wrote] does for other writes. The caches have seen it when the
// object with that UID is removed or marked for deletion: obj must have its UID.
func Deleted(ctx context.Context, obj metav1.Object) { ownwrites.Deleted(ctx, obj) }

// maxOutputs bounds the kinds that are remembered, since a controller may write
// any number of kinds.
const maxOutputs = 100

// outputs are the kinds that a controller has written. It is safe for concurrent
// use.
type outputs struct {
	mu    sync.Mutex // guards kinds
	kinds map[string]struct{}
}

// add is called after each reconcile.
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

// list returns the kinds, sorted.
func (o *outputs) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.kinds))
}

// kindOf returns the kind in obj's type meta, or else the name of its type.
func kindOf(obj metav1.Object) string {
	if object, ok := obj.(runtime.Object); ok {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
			return kind
		}
	}
	return reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
}
