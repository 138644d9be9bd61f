package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/reboot/internal/cli"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/reconcile"
)

// An election is whether and where one of several replicas is chosen.
type election struct {
	wanted              bool
	namespace, identity string
}

func (e *election) flags(fs *flag.FlagSet) {
	host, _ := os.Hostname() // an empty identity is refused when it is needed
	fs.BoolVar(&e.wanted, "leader-elect", false, "work only while holding the Lease "+controller.DefaultName+
		"; two replicas do no harm without it, but twice the work")
	fs.StringVar(&e.namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "default"), "`namespace` of the Lease")
	fs.StringVar(&e.identity, "identity", cmp.Or(os.Getenv("POD_NAME"), host), "`name` of this replica on the Lease")
}

// needs are the permissions on Leases, none without --leader-elect.
func (e *election) needs() []cli.Permission {
	if !e.wanted {
		return nil
	}
	group := coordinationv1.GroupName
	return []cli.Permission{
		{Verb: "get", Group: group, Resource: "leases", Namespace: e.namespace},
		{Verb: "create", Group: group, Resource: "leases", Namespace: e.namespace},
		{Verb: "update", Group: group, Resource: "leases", Namespace: e.namespace},
	}
}

// join returns the leader, and a config whose clients write only while this
// replica leads; nil and config itself without --leader-elect.
func (e *election) join(config *rest.Config) (*rest.Config, reconcile.Leader, error) {
	if !e.wanted {
		return config, nil, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client for the Lease: %w", err)
	}
	elector, err := leader.New(leader.Lease{
		Client: client.CoordinationV1(), Namespace: e.namespace, Name: controller.DefaultName, Identity: e.identity,
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	return elector.Fence(config), elector, nil
}
