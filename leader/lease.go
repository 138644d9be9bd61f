package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Lease says which Lease of coordination.k8s.io/v1 is campaigned for, and in
// whose name.
type Lease struct {
	// Client reads and writes the Lease: clientset.CoordinationV1() of a real or
	// a fake clientset. Give it a clientset of its own: a rate limiter shared
	// with the work lets busy work delay renewals. It needs the verbs get,
	// create and update on leases.
	Client coordinationclient.LeasesGetter

	Namespace string
	Name      string

	// Identity names this replica, such as the name of its pod. A random suffix
	// is added in the Lease, so that two processes with one identity are told
	// apart and never lead at once.
	Identity string
}

// Run leads while it holds the lease: [New] and [Elector.Run] in one line.
func Run(ctx context.Context, lease Lease, o *Options, fn func(context.Context) error) error {
	e, err := New(lease, o)
	if err != nil {
		return err
	}
	return e.Run(ctx, fn)
}

func (l Lease) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.Namespace, Name: l.Name}
}

func (l Lease) validate() error {
	var faults []error
	missing := func(field, wayOut string) {
		faults = append(faults, fmt.Errorf("%s is empty: %s", field, wayOut))
	}
	if l.Client == nil {
		missing("Lease.Client", "use clientset.CoordinationV1()")
	}
	if l.Namespace == "" {
		missing("Lease.Namespace", "use the namespace that the replicas run in")
	}
	if l.Name == "" {
		missing("Lease.Name", "use a name that all replicas share, such as the controller's")
	}
	if l.Identity == "" {
		missing("Lease.Identity", "use a name that no other replica has, such as the pod's")
	}
	if strings.ContainsAny(l.Identity, " \t\r\n") {
		faults = append(faults, fmt.Errorf("Lease.Identity is %q: must not contain white space", l.Identity))
	}
	return errors.Join(faults...)
}
