package cluster

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/answer"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// observer is a transport. It reports each write to the reconcile whose context
// the write was sent with. It returns an error in place of an answer that
// cannot be an API server's. It changes an answer that asks a reconcile to
// wait, so client-go returns an error at once; see handOver.
type observer struct {
	next   http.RoundTripper
	prefix string // path of the server's URL, before /api and /apis
}

// WrappedRoundTripper returns the inner transport, as client-go requires of
// wrappers.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }

func (o *observer) RoundTrip(req *http.Request) (*http.Response, error) {
	reconcile := ownwrites.ObserverOf(req.Context())
	if reconcile == nil {
		return o.send(req)
	}
	res, err := o.report(reconcile, req)
	if err == nil {
		o.handOver(req, res)
	}
	return res, err
}

// report returns the answer to a request of a reconcile. It reports the request
// to the reconcile, if it is a write.
func (o *observer) report(reconcile ownwrites.Observer, req *http.Request) (*http.Response, error) {
	r, ok := parse(req, o.prefix)
	if !ok {
		return o.send(req)
	}
	ended := reconcile.Sending(r.Write)
	res, err := o.send(req)
	if err != nil {
		if neverSent(err) {
			ended(ownwrites.Refused, nil)
		} else {
			ended(ownwrites.Uncertain, r.named(req))
		}
		return nil, err
	}
	ended(r.judge(req, res))
	return res, nil
}

// send returns the answer to req, or an error if the answer is not an API
// server's.
func (o *observer) send(req *http.Request) (*http.Response, error) {
	res, err := o.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return o.verify(req, res)
}

// neverSent reports whether a failed request cannot have reached the server,
// because there was no connection or because a fence in a transport below
// refused the request.
func neverSent(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	refusal, ok := errors.AsType[ownwrites.NeverSent](err)
	return ok && refusal.NeverSent()
}

// judge returns the outcome of a write whose request is req and whose answer is
// res, and the object as far as it is known. The object is nil if the server
// has refused the write, or has stored nothing, as for a review. judge leaves
// the content of the answer unchanged.
func (r *request) judge(req *http.Request, res *http.Response) (ownwrites.Outcome, *answer.Object) {
	switch {
	case res.StatusCode >= http.StatusInternalServerError, res.StatusCode == http.StatusRequestTimeout:
		return ownwrites.Uncertain, r.named(req)
	case res.StatusCode < http.StatusOK, res.StatusCode >= http.StatusMultipleChoices:
		return ownwrites.Refused, nil
	case r.Name == "" && r.method != http.MethodPost: // the answer to a write of a collection may be large
		return ownwrites.Uncertain, r.named(req)
	}
	object := read(res)
	if object == nil {
		return ownwrites.Uncertain, r.named(req)
	}
	outcome, written := r.outcome(req, object)
	if outcome == ownwrites.Removed && res.StatusCode == http.StatusAccepted {
		outcome = ownwrites.Accepted // the server has not finished the deletion
	}
	return outcome, written
}

// outcome returns what judge returns for a write whose answer reports success.
// got is the object in the answer.
func (r *request) outcome(req *http.Request, got *answer.Object) (ownwrites.Outcome, *answer.Object) {
	if got.Status != nil {
		return r.deleted(req, got.Status)
	}
	switch {
	case got.UID == "" && got.ResourceVersion == "": // for example a review or a token, which is not stored
		return ownwrites.Refused, nil
	case got.UID == "" || got.ResourceVersion == "":
		return ownwrites.Uncertain, r.named(req)
	case r.Name != "" && got.Name != r.Name:
		return ownwrites.Uncertain, r.named(req)
	case r.subresource != "" && !slices.Contains(wholeAnswers, r.subresource):
		got.Unlabelled = true
		return ownwrites.Written, got
	case r.isNamespace() && got.DeletionTimestamp != nil && len(got.Finalizers) == 0:
		return ownwrites.Uncertain, r.named(req) // it may have finalizers in its spec
	case !r.Delete && isRemoved(&got.ObjectMeta):
		return ownwrites.Removed, got // the answer has the old resourceVersion
	}
	return ownwrites.Written, got
}

// deleted returns what judge returns for a write that was answered with s, a
// Status, as most deletions are.
func (r *request) deleted(req *http.Request, s *metav1.Status) (ownwrites.Outcome, *answer.Object) {
	object := r.named(req)
	if !r.Delete || s.Status != metav1.StatusSuccess {
		return ownwrites.Uncertain, object
	}
	if s.Details != nil {
		object.UID = s.Details.UID
	}
	if r.subresource != "" {
		return ownwrites.Accepted, object // evicted pods take time to end
	}
	return ownwrites.Removed, object
}

// wholeAnswers are the subresources for which the server answers a write with
// the whole object.
var wholeAnswers = []string{"status", "ephemeralcontainers", "resize", "approval", "finalize"}

// isRemoved reports whether an update has removed a deleted object: it has
// neither finalizers nor a grace period left.
func isRemoved(o *metav1.ObjectMeta) bool {
	return o.DeletionTimestamp != nil && len(o.Finalizers) == 0 &&
		(o.DeletionGracePeriodSeconds == nil || *o.DeletionGracePeriodSeconds == 0)
}

// named returns an object that has only the namespace and the name in the
// request. Each of them is empty if the request does not contain it.
func (r *request) named(req *http.Request) *answer.Object {
	object := &answer.Object{Unlabelled: true}
	object.Namespace, object.Name = r.Namespace, r.Name
	if r.method == http.MethodPost && r.Name == "" {
		if body := sent(req); body != nil {
			object.Name = body.Name
		}
	}
	return object
}

// read returns the object in an answer, or nil if the answer cannot be decoded
// or is larger than answer.MaxBytes. It replaces the body of res with one that
// has the same content. If reading the old body failed, reading the new one
// fails with the same error.
func read(res *http.Response) *answer.Object {
	if res.Body == nil || res.Body == http.NoBody || !answer.Readable(res.Header.Get("Content-Type")) {
		return nil
	}
	rest := res.Body
	data, err := readAll(rest, res.ContentLength)
	unread := io.Reader(rest)
	if err != nil {
		unread = broken{err}
	}
	res.Body = &putBack{Reader: io.MultiReader(bytes.NewReader(data), unread), Closer: rest}
	if err != nil || len(data) > answer.MaxBytes {
		return nil
	}
	object, err := answer.Read(res.Header.Get("Content-Type"), data)
	if err != nil {
		return nil
	}
	return object
}

type putBack struct {
	io.Reader
	io.Closer
}

// broken takes the place of the rest of a body that could not be read. Reading
// it returns err.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
