// Package ownwrites carries, in a context, what one reconcile wrote and under
// which field manager. Package patch and the transports of package cluster report
// writes through it to package reconcile, and none of them imports another.
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

// Recorder receives the writes of one reconcile.
//
// Implementations are safe for concurrent use: a reconciler may write from
// several goroutines.
type Recorder interface {
	// Wrote is called after the server has committed a create, update or
	// patch; obj is the server's answer, and asked what the request asked for.
	Wrote(obj metav1.Object, asked Content)
	// Deleted is called after the server has accepted a delete of obj.
	Deleted(obj metav1.Object)
	// FieldManager returns the default field manager of the reconcile's writes.
	FieldManager() string
}

// Key is the context key of a reconcile's Recorder. A context that is itself a
// Recorder answers it without a second allocation.
type Key struct{}

// NewContext returns a context whose writes are reported to r.
func NewContext(ctx context.Context, r Recorder) context.Context {
	return context.WithValue(ctx, Key{}, r)
}

// Wrote reports obj, as the server returned it, to the reconcile of ctx. Outside
// a reconcile it does nothing.
func Wrote(ctx context.Context, obj metav1.Object) { WroteAs(ctx, obj, Content{}) }

// WroteAs is Wrote, for a caller that knows what it has asked for.
func WroteAs(ctx context.Context, obj metav1.Object, asked Content) {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		r.Wrote(obj, asked)
	}
}

// Deleted reports an accepted delete of obj to the reconcile of ctx. Outside a
// reconcile it does nothing.
func Deleted(ctx context.Context, obj metav1.Object) {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		r.Deleted(obj)
	}
}

// FieldManager returns the reconcile's default field manager, and "" outside a
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
	// Namespace and Name of the object. Name is empty if the server makes it, or
	// if the request is about a whole collection.
	Namespace, Name string
	// Delete reports whether the request deletes what it names.
	Delete bool
	// Content is what the request asks for, unless it deletes.
	Content Content
}

// Content is the content of a request that creates or changes an object. The zero
// Content means that it is not known.
type Content struct {
	Method, Subresource string
	Type                string // the Content-Type
	// Body returns a copy of the body; nil if there is none.
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
	// Refused means that the server has written nothing.
	Refused Outcome = iota
	// Written means that the server has the object as it answered.
	Written
	// Removed means that the server no longer has the object.
	Removed
	// Accepted means that the object is marked for deletion or removed.
	Accepted
	// Uncertain means that the answer does not show what the server has.
	Uncertain
)

// Observer is a [Recorder] that the transport calls for each write it sends.
type Observer interface {
	Recorder

	// Sending is called before a write is sent. The caller calls ended once, with
	// what became of it: the object of the answer, or as much of its name as is
	// known, and nil if it was refused.
	Sending(w Write) (ended func(Outcome, *answer.Object))
}

// ObserverOf returns the Observer of the reconcile that ctx belongs to, nil if
// there is none.
func ObserverOf(ctx context.Context) Observer {
	o, _ := ctx.Value(Key{}).(Observer)
	return o
}

// NeverSent is implemented by errors of a transport that know whether the request
// was sent. Package cluster does not wait for a write that was not; the errors of
// a fence of package leader implement it.
type NeverSent interface {
	error
	// NeverSent reports whether no byte of the request can have reached the
	// server.
	NeverSent() bool
}
