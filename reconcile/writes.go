package reconcile

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// write is one write of a reconcile, as the transport saw it, or as [Wrote] or
// [Deleted] reported it.
type write struct {
	object  metav1.Object // as the server answered, with its name at least; never nil
	before  metav1.Object // the cached state that it changed; nil if that is not known
	content ownwrites.Content
	deleted bool

	outcome   ownwrites.Outcome
	resource  schema.GroupResource // empty if it was reported
	baselines []*baseline          // the cached states since before it was sent
	// whenAnswered calls f with the write as it was answered; nil if it was before
	// the reconcile ended.
	whenAnswered func(f func(write))
}

func (w *write) key() Key { return bound.KeyOf(w.object) }

// baseline is the state of an object in one cache before a request was sent, and
// which objects of that name it has dropped since.
type baseline struct {
	objectRef
	had     types.UID // "" if there was no object
	rv      string    // of that
	removed []types.UID
}

// objectRef is where an object is, or would be, in one cache.
type objectRef struct {
	source int
	key    Key
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
// returned it: the controller's caches must have seen this before the next reconcile
// of the same key. Clients of package cluster, and package patch, do this on their
// own; call Wrote after a write by any other client, such as a fake.
//
// ctx is the reconcile's context, or derived from it: with any other, and after the
// reconcile has returned, Wrote does nothing. obj must not be nil, and is retained:
// do not modify it afterwards. Any goroutine of the reconcile may call it.
//
//	pod, err := clientset.CoreV1().Pods(namespace).Create(ctx, desired, metav1.CreateOptions{})
//	if err == nil {
//		reconcile.Wrote(ctx, pod)
//	}
func Wrote(ctx context.Context, obj metav1.Object) { ownwrites.Wrote(ctx, obj) }

// Deleted reports that the server has accepted a deletion of obj in this reconcile,
// as [Wrote] does for other writes. The caches have seen it when the object with
// that UID is removed or marked for deletion, so obj must have its UID.
func Deleted(ctx context.Context, obj metav1.Object) { ownwrites.Deleted(ctx, obj) }

// kindOf returns the kind in obj's type meta, or else the name of its type.
func kindOf(obj metav1.Object) string {
	if object, ok := obj.(runtime.Object); ok {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
			return kind
		}
	}
	return reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
}
