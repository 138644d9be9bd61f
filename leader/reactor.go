package leader

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Action is what a fence reads of an action of a fake clientset; an Action of
// k8s.io/client-go/testing is one.
type Action interface {
	GetNamespace() string
	GetVerb() string
	GetResource() schema.GroupVersionResource
}

// Reactor is [Elector.Fence] for fake clientsets, which have no transport:
//
//	clientset.PrependReactor("*", "*", leader.Reactor[clienttesting.Action](elector))
//
// Fakes pass neither context nor deadline, so that it knows only the current
// leadership. The elector's own Lease passes.
func Reactor[A Action](e *Elector) func(A) (handled bool, ret runtime.Object, err error) {
	return func(action A) (bool, runtime.Object, error) {
		switch action.GetVerb() {
		case "get", "list", "watch":
			return false, nil, nil
		}
		if e.ownsLease(action) {
			return false, nil, nil
		}
		if _, _, err := e.permit(context.Background()); err != nil {
			return true, nil, err
		}
		return false, nil, nil
	}
}

func (e *Elector) ownsLease(action Action) bool {
	r := action.GetResource()
	if r.Group != "coordination.k8s.io" || r.Resource != "leases" || action.GetNamespace() != e.lease.Namespace {
		return false
	}
	if named, ok := action.(interface{ GetName() string }); ok && named.GetName() != "" {
		return named.GetName() == e.lease.Name
	}
	if written, ok := action.(interface{ GetObject() runtime.Object }); ok {
		object, err := meta.Accessor(written.GetObject())
		return err == nil && object.GetName() == e.lease.Name
	}
	return false
}
