// Package turn carries, in a context, what one turn of a reconciler wrote and
// under which field manager, so that patch can report its writes to reconcile
// without either package importing the other.
package turn

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Recorder receives the writes of one turn.
//
// Implementations are safe for concurrent use: a reconciler may write from
// several goroutines.
type Recorder interface {
	// Wrote is called after the server has committed a create, update or
	// patch; obj is the server's answer.
	Wrote(obj metav1.Object)
	// Deleted is called after the server has accepted a delete of obj.
	Deleted(obj metav1.Object)
	// FieldManager is the default field manager of the turn's writes.
	FieldManager() string
}

// Key is the context key of a turn's Recorder. A context that is itself a
// Recorder answers it without a second allocation.
type Key struct{}

// NewContext returns a context whose writes are reported to r.
func NewContext(ctx context.Context, r Recorder) context.Context {
	return context.WithValue(ctx, Key{}, r)
}

// Wrote reports obj, as the server returned it, to the turn of ctx. Outside a
// turn it does nothing.
func Wrote(ctx context.Context, obj metav1.Object) {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		r.Wrote(obj)
	}
}

// Deleted reports an accepted delete of obj to the turn of ctx. Outside a turn
// it does nothing.
func Deleted(ctx context.Context, obj metav1.Object) {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		r.Deleted(obj)
	}
}

// FieldManager returns the turn's default field manager, and "" outside a turn.
func FieldManager(ctx context.Context) string {
	if r, ok := ctx.Value(Key{}).(Recorder); ok {
		return r.FieldManager()
	}
	return ""
}
