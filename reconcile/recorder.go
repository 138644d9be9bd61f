package reconcile

import (
	"cmp"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/rvorder"
)

// recorder records the writes of one reconcile. It is an ownwrites.Observer,
// and safe for concurrent use.
//
// A transport calls Sending before a request, and the function it returns after
// the answer. Clients without such a transport call Wrote and Deleted after the
// answer. A write that is reported in both ways is recorded once.
type recorder struct {
	control *core

	mu       sync.Mutex // guards the fields below
	closed   bool       // whether the reconcile has ended
	writes   []write
	requests []*request // requests without an answer yet
}

var _ ownwrites.Observer = (*recorder)(nil)

// request is a write that was sent. The recorder's mu guards it.
type request struct {
	write  write // the write, as far as it is known
	ended  bool
	onLate func(write) // called if the answer arrives after the end of the reconcile
}

// Wrote records that a client without a transport of package cluster has
// created or changed obj. asked is the content of the client's request, or zero
// if it is unknown.
func (r *recorder) Wrote(obj metav1.Object, asked ownwrites.Content) {
	w := write{object: obj, outcome: ownwrites.Written, content: asked}
	if rvorder.Comparable(obj.GetResourceVersion()) && isRemoved(obj) {
		w.outcome = ownwrites.Removed
		if kindOf(obj) == "Namespace" { // it may have finalizers in its spec
			w.outcome = ownwrites.Uncertain
		}
	}
	w.cached = r.control.sources.cachedBefore(&w)
	r.record(w)
}

// Deleted records that a client without a transport of package cluster has
// deleted obj.
func (r *recorder) Deleted(obj metav1.Object) {
	r.record(write{object: obj, deleted: true, outcome: ownwrites.Accepted})
}

// FieldManager returns the field manager of the controller, which package patch
// uses by default.
func (r *recorder) FieldManager() string { return r.control.options.FieldManager }

// Sending records that a transport of package cluster is about to send w. The
// transport calls ended with the outcome of the write and the object in the
// answer.
func (r *recorder) Sending(w ownwrites.Write) (ended func(ownwrites.Outcome, *answer.Object)) {
	object := &answer.Object{Unlabelled: true}
	object.Kind, object.Namespace, object.Name = r.control.sources.kindOfResource(w.Resource), w.Namespace, w.Name
	req := &request{write: write{
		object: object, deleted: w.Delete, outcome: ownwrites.Uncertain, resource: w.Resource, content: w.Content,
	}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return func(ownwrites.Outcome, *answer.Object) {}
	}
	req.write.baselines = r.control.fresh.takeBaselines(&req.write)
	r.control.loops.sending(req.write.baselines)
	r.requests = append(r.requests, req)
	return func(outcome ownwrites.Outcome, object *answer.Object) { r.answered(req, outcome, object) }
}

// answered records the outcome of a request.
func (r *recorder) answered(req *request, outcome ownwrites.Outcome, object *answer.Object) {
	w := req.write
	w.outcome = outcome
	if object != nil {
		object.Kind = cmp.Or(w.object.(*answer.Object).Kind, object.Kind, w.resource.Resource)
		w.object = object
	}
	r.mu.Lock()
	req.write, req.ended = w, true
	closed, onLate := r.closed, req.onLate
	if !closed {
		r.requests = slices.DeleteFunc(r.requests, func(candidate *request) bool { return candidate == req })
		if outcome != ownwrites.Refused {
			r.writes = append(r.writes, w)
		}
	}
	r.mu.Unlock()
	switch {
	case onLate != nil:
		onLate(w)
	case !closed && outcome == ownwrites.Refused:
		r.control.fresh.dropBaselines(w.baselines)
	}
}

// record adds a write that the client has reported. If the transport has
// already recorded the write, record only replaces its object, because the
// reported object is complete. The object of a deletion is not replaced.
func (r *recorder) record(w write) {
	_ = w.key() // a nil object panics here, so that the reconciler is in the stack
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.writes) - 1; i >= 0; i-- { // it is one of the last
		if known := &r.writes[i]; known.isReportedBy(&w) {
			if !w.deleted {
				known.object = w.object
			}
			return
		}
	}
	r.writes = append(r.writes, w)
}

// close returns the writes of the reconcile, including the ones that have not
// been answered. Later writes are not recorded.
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

// whenAnswered calls f with the write of req as soon as it is answered.
func (r *recorder) whenAnswered(req *request, f func(write)) {
	r.mu.Lock()
	ended := req.ended
	if !ended {
		req.onLate = f
	}
	r.mu.Unlock()
	if ended {
		f(req.write)
	}
}
