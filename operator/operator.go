package operator

import (
	"context"
	"flag"
	"net/http"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile"
)

// Program is one process of controllers. Its zero fields mean the defaults; Name
// and Setup are required.
type Program struct {
	// Name is in logs, in the user agent, in Events and on the Lease. It is a DNS
	// label, such as "website-operator".
	Name string
	// Usage is the first line of --help: what the program does. Defaults to
	// "Usage of" and the name.
	Usage string
	// Flags adds the program's own flags. They are parsed before Setup is called. One
	// that every program has is an error. Defaults to none.
	Flags func(*flag.FlagSet)
	// Needs are the permissions without which the program ends at its start. A need
	// is verbs, a resource, perhaps a name, a namespace and one of Clusters:
	//
	//	"list,watch pods"                      in all namespaces
	//	"patch widgets.example.com/status"     a group and a subresource
	//	"get,update configmaps settings"       of one name
	//	"get secrets in kube-system"           in one namespace
	//	"create jobs.batch in ci on west"      in the cluster west of Clusters
	//
	// With --leader-elect those on its Leases are added. Setup asks for permissions
	// that the program can do without by [Env.CheckPermissions]. Those of Events and of
	// the debug page are asked for, too: one that is missing is logged. Nil checks none.
	Needs []string
	// Replicas is the division of work among replicas. Defaults to [OneLeads].
	Replicas Replicas
	// Shards returns the shards that [AllShare] divides the keys into, such as shards with other options,
	// or [shard.NewRanges]: then each replica lists, watches and caches the objects of its
	// own namespaces only, and a reconcile finds in the caches what is in its key's
	// namespace, and all of the kinds whose informers have Options.Whole. Defaults to
	// [shard.New].
	Shards func(lease leader.Lease) (shard.Assignment, error)
	// Clusters are the names of further clusters, DNS labels. Each adds a flag
	// --<name>-kubeconfig, and is in [Env.Clusters]. The Lease and the Events are
	// in the first cluster; the writes to all are fenced. Defaults to none.
	Clusters []string
	// FencingPolicy is [FencingPolicy]: with it --print-fencing-policy prints the admission
	// policy by which the API server itself refuses what a replica without the Lease writes,
	// and exits. Defaults to none, which leaves the flag and 31 kB out of the program.
	FencingPolicy func(p Program, serviceAccount string) (string, error)
	// Profiles is the handler returned by profiles.Handler (package status/profiles):
	// it is served on /debug/pprof/ to those who may see the debug page. Defaults to
	// none.
	Profiles http.Handler
	// Setup makes the controllers; nothing runs yet but /livez and /readyz, which says
	// that the program is starting. Requests take [Env.Context]. A kind that the program
	// can do without is checked here, by cluster.Kind's Check: all others must be there.
	// An error ends the program with exit code 1. It is called once.
	Setup func(env Env) ([]*reconcile.Controller, error)
	// Beside runs while the controllers do, in every replica, such as the server of
	// webhooks. It is called after Setup. ctx ends when the controllers have drained;
	// an error before ends the program. Defaults to none.
	Beside func(ctx context.Context, env Env) error
}

// Replicas is the division of work among the replicas of a program with --leader-elect.
type Replicas uint8

const (
	// OneLeads lets one replica work, while the others stand by with full caches.
	OneLeads Replicas = iota
	// AllShare lets all replicas work, each on its part of the keys. The program
	// has one controller then.
	AllShare
	// AllWork leaves out --leader-elect: each process has work of its own, such as
	// that of its node.
	AllWork
)
