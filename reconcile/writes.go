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

// write is one write of a reconcile, as the transport saw it or as [Wrote] or
// [Deleted] reported it.
type write struct {
	object  metav1.Object // the object in the server's answer, which may contain only its name; never nil
	cached  metav1.Object // the cached state before the write; nil if it is not known
	content ownwrites.Content
	deleted bool

	outcome   ownwrites.Outcome
	resource  schema.GroupResource // empty if the client reported the write
	baselines []*baseline          // the cached states before the request was sent
	// whenAnswered calls f with the write once it is answered. It is nil if the
	// answer arrived before the reconcile ended.
	whenAnswered func(f func(write))
}

func (w *write) key() Key { return bound.KeyOf(w.object) }

// baseline is the state of an object in one cache before a request was sent.
// removed are the objects with that name that the cache has removed since.
type baseline struct {
	objectRef
	uid     types.UID // the UID of the object; "" if there was no object
	rv      string    // the resourceVersion of that object
	removed []types.UID
}

// objectRef identifies an object in one cache, whether or not the cache has it.
type objectRef struct {
	source int
	key    Key
}

// isReportedBy reports whether w, a write that a transport has seen, is the
// same write as report. It returns false if a client reported w, too.
func (w *write) isReportedBy(report *write) bool {
	if w.resource.Resource == "" || w.object.GetUID() == "" || w.object.GetUID() != report.object.GetUID() {
		return false
	}
	return w.deleted && report.deleted || w.object.GetResourceVersion() == report.object.GetResourceVersion()
}

// isRemoved reports whether a write has removed the last finalizer of a deleted
// object. The server has then removed the object, but its answer has the
// resourceVersion from before the write.
func isRemoved(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}

// Wrote reports that this reconcile has created or changed obj. The
// controller's caches must then have seen the change before the next reconcile
// of the same key. Clients of package cluster, and package patch, report their
// writes on their own. Call Wrote after a write by any other client, such as a
// fake:
//
//	pod, err := clientset.CoreV1().Pods(namespace).Create(ctx, desired, metav1.CreateOptions{})
//	if err == nil {
//		reconcile.Wrote(ctx, pod)
//	}
//
// ctx is the reconcile's context, or derived from it. With any other context,
// and after the reconcile has returned, Wrote has no effect. obj is the object
// as the server returned it. It must not be nil, and is retained: do not modify
// it afterwards. Any goroutine of the reconcile may call Wrote.
func Wrote(ctx context.Context, obj metav1.Object) { ownwrites.Wrote(ctx, obj) }

// Deleted reports that the server has accepted a deletion of obj in this
// reconcile, as [Wrote] does for other writes. The UID of obj must be set,
// because the caches have seen the deletion as soon as the object with that UID
// is removed from them or marked for deletion.
func Deleted(ctx context.Context, obj metav1.Object) { ownwrites.Deleted(ctx, obj) }

// kindOf returns the kind in the object's TypeMeta. If the TypeMeta is empty,
// it returns the name of the object's Go type.
func kindOf(obj metav1.Object) string {
	if object, ok := obj.(runtime.Object); ok {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
			return kind
		}
	}
	return reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
}
