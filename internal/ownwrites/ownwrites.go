// Package ownwrites carries in a context the writes of one reconcile and its
// field manager. Package patch and the transports of package cluster report
// writes through it to package reconcile. None of these packages imports
// another.
package ownwrites

import (
	"bytes"
	"context"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/answer"
)

// Recorder receives the writes of one reconcile. Implementations are safe for
// concurrent use, since a reconciler may write from several goroutines.
type Recorder interface {
	// Wrote is called after the server has committed a create, update or patch.
	// obj is the server's answer, and asked is the content of the request.
	Wrote(obj metav1.Object, asked Content)
	// Deleted is called after the server has accepted a delete of obj.
	Deleted(obj metav1.Object)
	// FieldManager returns the default field manager of the reconcile's writes.
	FieldManager() string
}

// Key is the context key of a reconcile's Recorder. A context that is itself a
// Recorder can return itself for this key, without a second allocation.
type Key struct{}

// NewContext returns a context whose writes are reported to r.
func NewContext(ctx context.Context, r Recorder) context.Context {
	return context.WithValue(ctx, Key{}, r)
}

// Wrote reports obj, as the server returned it, to the reconcile of ctx.
// Outside a reconcile it has no effect.
func Wrote(ctx context.Context, obj metav1.Object) { WroteAs(ctx, obj, Content{}) }

// WroteAs is [Wrote] for a caller that knows the content of the request.
func WroteAs(ctx context.Context, obj metav1.Object, asked Content) {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		r.Wrote(obj, asked)
	}
}

// Deleted reports an accepted delete of obj to the reconcile of ctx. Outside a
// reconcile it has no effect.
func Deleted(ctx context.Context, obj metav1.Object) {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		r.Deleted(obj)
	}
}

// FieldManager returns the reconcile's default field manager, or "" outside a
// reconcile.
func FieldManager(ctx context.Context) string {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		return r.FieldManager()
	}
	return ""
}

// Write describes the request of a write.
type Write struct {
	Resource schema.GroupResource
	// Namespace and Name name the object. Name is empty if the server generates
	// it, or if the request is about a whole collection.
	Namespace, Name string
	// Delete means that the request deletes the object.
	Delete bool
	// Content is the content of a request that creates or changes the object.
	// It is zero if the request deletes the object.
	Content Content
}

// Content is the content of a request that creates or changes an object. The
// zero Content means that the content is not known.
type Content struct {
	Method, Subresource string
	Type                string // the Content-Type
	// Body returns a copy of the body. It is nil if the request has no body, or
	// a body that can be read only once.
	Body func() (io.ReadCloser, error)
}

// PatchOf returns the content of a patch.
func PatchOf(contentType, subresource string, data []byte) Content {
	return Content{
		Method: http.MethodPatch, Subresource: subresource, Type: contentType,
		Body: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
	}
}

// Outcome is the outcome of a write.
type Outcome uint8

const (
	// Refused means that the write has not changed any stored object: the
	// server has refused it, it was never sent, or its object is not stored, as
	// a review is not.
	Refused Outcome = iota
	// Written means that the server has stored the object that it returned.
	Written
	// Removed means that the server no longer has the object.
	Removed
	// Accepted means that the server has accepted a deletion. The object is
	// either removed or marked for deletion.
	Accepted
	// Uncertain means that the answer does not show whether the object was
	// changed.
	Uncertain
)

// Observer is a [Recorder] that the transport notifies of each write that it
// sends.
type Observer interface {
	Recorder

	// Sending is called before a write is sent. The caller calls ended once,
	// with the outcome and an object. This is the object in the answer or, if
	// the answer has no object, an object that has only the name, as far as it
	// is known. It is nil if the outcome is Refused.
	Sending(w Write) (ended func(Outcome, *answer.Object))
}

// ObserverOf returns the Observer of the reconcile that ctx belongs to. It
// returns nil outside a reconcile.
func ObserverOf(ctx context.Context) Observer {
	o, _ := ctx.Value(Key{}).(Observer)
	return o
}

// NeverSent is implemented by errors of a transport that knows whether it has
// sent the request. Package cluster does not wait for the effect of a write
// that was never sent. The errors with which a fence of package leader refuses
// a write implement it.
type NeverSent interface {
	error
	// NeverSent reports whether it is certain that no byte of the request has
	// reached the server.
	NeverSent() bool
}
