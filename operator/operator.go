package operator

import (
	"context"
	"flag"
	"net/http"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/reconcile"
)

// Program is one process of controllers. Its zero fields mean the defaults; Name
// and Setup are required.
type Program struct {
	// Name appears in logs, the user agent, Events and the Lease. It is a DNS
	// label, such as "website-operator".
	Name string
	// Usage is the first line of --help: what the program does. Defaults to
	// "Usage of" and the name.
	Usage string
	// Flags adds the program's own flags. They are parsed before Setup is
	// called. Redefining a flag that every program has is an error. Defaults to
	// none.
	Flags func(*flag.FlagSet)
	// Needs are the permissions without which the program ends at its start. A
	// need consists of verbs, a resource and optionally a name, a namespace and
	// one of Clusters:
	//
	//	"list,watch pods"                      in all namespaces
	//	"patch widgets.example.com/status"     a group and a subresource
	//	"get,update configmaps settings"       of one name
	//	"get secrets in kube-system"           in one namespace
	//	"create jobs.batch in ci on west"      in the cluster west of Clusters
	//	"list,watch pods in team-a?"           in a namespace that may be missing
	//	"list,watch secrets by name"           of names that objects refer to
	//
	// Those by name are for informers made with informer.Referenced. The names
	// are not known at the start, so the server is not asked. A missing
	// permission is the error of the keys that refer to the name, and a problem
	// on the page; both name it.
	//
	// A question mark says that the namespace need not exist, or grant the
	// permission: then the program goes on, /readyz names what is missing and
	// stays 200, and it is asked for again. Use it for the namespaces of an
	// informer with Options.Independent.
	//
	// With --leader-elect those on its Leases are added. For permissions that
	// the program can do without, Setup calls [Env.CheckPermissions]. Those for
	// Events and the debug page are also checked: a missing one is logged. Nil
	// checks none.
	Needs []string
	// Replicas defines how replicas divide the work. Defaults to [LeaderElected].
	Replicas Replicas
	// Shards makes the shards that [Sharded] divides the keys into. Set it for
	// other options, or use New of package leader/shard/ranges, with which each
	// replica caches only its own namespaces. member has the durations that the
	// flags set; pass it on as [shard.Options].Member. Defaults to [shard.New].
	Shards func(lease leader.Lease, member leader.Options) (reconcile.Shards, error)
	// Clusters are further clusters. Each adds a flag --<name>-kubeconfig, and
	// is in [Env.Clusters]. The Lease and the Events are in the first cluster;
	// the writes to all are fenced. /readyz names a cluster that stops
	// answering, and stays 200. Defaults to none.
	Clusters []Cluster
	// FencingPolicy may be set to the function [FencingPolicy]: then
	// --print-fencing-policy prints the admission policy by which the API
	// server itself refuses writes of a replica without the Lease, and exits.
	// Defaults to none, which leaves the flag and 31 kB out of the program.
	FencingPolicy func(p Program, serviceAccount string) (string, error)
	// Profiles is the handler returned by profiles.Handler (package
	// status/profiles): it is served on /debug/pprof/ to clients that may see
	// the debug page. Defaults to none.
	Profiles http.Handler
	// Setup makes the controllers; only /livez and /readyz are served yet, and
	// the latter says that the program is starting. Use [Env.Context] for
	// requests. It is called once.
	//
	// The kinds of [cluster.NewKind] must exist, except for those that only
	// controllers with reconcile.Options.Optional watch: such a controller
	// starts when its kind is installed, without a restart.
	//
	// Returns: the controllers to run, at least one and none of them nil. With
	// --leader-elect at least one must have options from [Env.Options].
	//
	// Errors: any ends the program with exit code 1, before a controller runs.
	Setup func(env Env) ([]*reconcile.Controller, error)
	// Beside runs while the controllers do, in every replica, such as a webhook
	// server. It is called after Setup. ctx ends when the controllers have
	// drained; an error before that ends the program. Defaults to none.
	Beside func(ctx context.Context, env Env) error
	// ReadyWithoutCaches makes the process ready before its caches are filled,
	// as soon as the controllers run. Set it if Beside serves a conversion
	// webhook: the caches wait for the API server, which waits for the webhook,
	// whose Service sends requests to Pods that are ready. Defaults to false.
	ReadyWithoutCaches bool
}

// Replicas defines how the replicas of a program with --leader-elect divide the
// work.
type Replicas uint8

const (
	// LeaderElected lets one replica work, while the others stand by with full
	// caches.
	LeaderElected Replicas = iota
	// Sharded lets all replicas work, each on its share of the keys. The
	// program must have exactly one controller.
	Sharded
	// Independent leaves out --leader-elect: each process has its own work,
	// such as that of its node.
	Independent
)
