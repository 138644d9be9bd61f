package program

import (
	"cmp"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

func (f *flags) leaseFlags(fs *flag.FlagSet, sharded bool) {
	usage := "work only while holding the Lease of this program's name"
	if sharded {
		usage = "share the work with the other replicas, by Leases that begin with this program's name"
	}
	fs.BoolVar(&f.leaderElect, "leader-elect", false, usage)
	fs.StringVar(&f.namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "default"), "`namespace` of the Lease")
	host, _ := os.Hostname() // an empty identity is refused when it is needed
	fs.StringVar(&f.identity, "identity", cmp.Or(os.Getenv("POD_NAME"), host), "`name` of this replica on the Lease")
}

// replicate makes env that of one of several replicas.
func (p Program) replicate(env *Env, f *flags) error {
	client, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		return fmt.Errorf("making a client for the Lease: %w", err)
	}
	lease := leader.Lease{
		Client: client.CoordinationV1(), Namespace: f.namespace, Name: p.Name, Identity: f.identity,
	}
	if p.Sharded {
		shards, err := shard.New(lease, nil)
		if err != nil {
			return err
		}
		env.Shards, env.Config = shards, shards.Fence(env.Config)
		return nil
	}
	elector, err := leader.New(lease, nil)
	if err != nil {
		return err
	}
	env.Leader, env.Config = elector, elector.Fence(env.Config)
	return nil
}
