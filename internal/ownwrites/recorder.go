// Package ownwrites carries, in a context, what one reconcile wrote and under
// which field manager. Package patch and the transports of package cluster report
// writes through it to package reconcile, and none of them imports another.
package ownwrites

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Recorder receives the writes of one reconcile.
//
// Implementations are safe for concurrent use: a reconciler may write from
// several goroutines.
type Recorder interface {
	// Wrote is called after the server has committed a create, update or
	// patch; obj is the server's answer.
	Wrote(obj metav1.Object)
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
func Wrote(ctx context.Context, obj metav1.Object) {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		r.Wrote(obj)
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
