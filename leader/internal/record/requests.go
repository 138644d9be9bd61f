package record

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/internal/absent"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/suspect"
)

// Get reads the Lease with this name.
//
// Get returns the error of the request, or an error if the answer cannot be the
// API server's answer about this Lease. For example, the {} of a gateway would
// otherwise look like a Lease without a holder.
func Get(ctx context.Context, c coordinationclient.LeaseInterface, name string) (*coordinationv1.Lease, error) {
	lease, err := c.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		namespace, _ := bound.NamespaceOf(c)
		err = absent.Answer(lease, &metav1.ObjectMeta{Namespace: namespace, Name: name})
	}
	if err != nil {
		return nil, err // clients return an empty Lease with it
	}
	return lease, nil
}

// List returns the Leases that a selector selects. Callers select at least one
// existing Lease, so an empty list is suspicious and is checked.
//
// List returns the error of the request, or an error if an empty list cannot be
// the API server's answer.
func List(
	ctx context.Context, c coordinationclient.LeaseInterface, selector string,
) (*coordinationv1.LeaseList, error) {
	list, err := c.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err == nil && len(list.Items) == 0 { // fakes have no resourceVersion
		err = absent.List(list)
	}
	return list, err
}

// Create creates a Lease.
//
// Create returns the error of the request, or an error if the answer does not
// show that the API server has written the Lease.
func Create(
	ctx context.Context, c coordinationclient.LeaseInterface, lease *coordinationv1.Lease,
) (*coordinationv1.Lease, error) {
	got, err := c.Create(ctx, lease, metav1.CreateOptions{})
	return written(lease, got, err)
}

// Update replaces a Lease.
//
// Update returns the error of the request, or an error if the answer does not
// show that the API server has written the Lease.
func Update(
	ctx context.Context, c coordinationclient.LeaseInterface, lease *coordinationv1.Lease,
) (*coordinationv1.Lease, error) {
	got, err := c.Update(ctx, lease, metav1.UpdateOptions{})
	return written(lease, got, err)
}

var (
	errEcho   = suspect.Answerf("the answer has the old resourceVersion")
	errReplay = suspect.Answerf("the answer has the renew time of another write")
)

// written returns the answer to a write of lease. It returns an error if the
// write failed, or if the answer shows a different object or holder, is an echo
// of the request, or is the answer to an earlier write.
func written(lease, got *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil {
		err = absent.Answer(got, lease)
	}
	switch {
	case err != nil:
		return nil, err
	case Holder(got) != Holder(lease):
		return nil, fmt.Errorf("the answer has the holder %q, not %q", Holder(got), Holder(lease))
	case lease.ResourceVersion != "" && got.ResourceVersion == lease.ResourceVersion:
		return nil, errEcho
	case !sameTime(got.Spec.RenewTime, lease.Spec.RenewTime):
		return nil, errReplay
	}
	return got, nil
}
