package operator

import (
	"context"
	"flag"
	"net/http"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/reconcile"
)

// Program describes a process that runs controllers. Name and Setup are
// required. Other fields may be zero, and then have their defaults.
type Program struct {
	// Name is the name of the program in logs, in the user agent, in Events and
	// on the Lease. It must be a DNS label, such as "website-operator".
	Name string
	// Usage is the first line of --help, and says what the program does.
	// Defaults to "Usage of" and the name.
	Usage string
	// Flags adds the program's own flags. They are parsed before Setup is
	// called. Their names must differ from the names of the flags that every
	// program has. Defaults to no additional flags.
	Flags func(*flag.FlagSet)
	// Needs are permissions that the program checks at its start. If one is
	// missing, the program exits. A need consists of verbs and a resource. A
	// name, a namespace and the name of one of Clusters may follow. For
	// example:
	//
	//	"list,watch pods"                      in all namespaces
	//	"patch widgets.example.com/status"     a group and a subresource
	//	"get,update configmaps settings"       only the object with this name
	//	"get secrets in kube-system"           in one namespace
	//	"create jobs.batch in ci on west"      in the cluster west of Clusters
	//	"list,watch pods in team-a?"           in a namespace that may be missing
	//	"list,watch secrets by name"           of names that objects refer to
	//
	// A need with a question mark does not stop the program if the namespace is
	// missing or does not grant the permission. /readyz then names what is
	// missing but stays 200, and the program asks again. Use it for the
	// namespaces of an informer with Options.Independent.
	//
	// A need "by name" is for informers that are made with informer.Referenced.
	// The names of their objects are not known at the start, so the server is
	// not asked. A missing permission becomes the error of the keys that refer
	// to the name, and a problem on the debug page.
	//
	// The program adds the permissions for its Leases if --leader-elect is set.
	// It also checks the permissions for Events and for the debug page, and
	// logs the ones that are missing. Nil disables all of these checks. Setup
	// can call [Env.CheckPermissions] for permissions that it can do without.
	Needs []string
	// Replicas defines how replicas divide the work. Defaults to
	// [LeaderElected].
	Replicas Replicas
	// Shards makes the shards of a [Sharded] program. Set it for other options,
	// or to use New of package leader/shard/ranges, with which each replica
	// caches only its own namespaces. member contains the durations from the
	// flags. Pass it on as [shard.Options].Member. Defaults to [shard.New].
	Shards func(lease leader.Lease, member leader.Options) (reconcile.Shards, error)
	// Clusters are additional clusters. Each adds a flag --<name>-kubeconfig
	// and an entry to [Env.Clusters]. The Lease and the Events are in the
	// cluster of --kubeconfig. With --leader-elect, writes to all clusters are
	// fenced. If one of Clusters stops answering, /readyz names it but stays
	// 200. Children in a different cluster than their owners need
	// children.Options.Origin. Defaults to no additional clusters.
	Clusters []Cluster
	// FencingPolicy adds the flag --print-fencing-policy. With the flag, the
	// program prints an admission policy and exits. With that policy, the API
	// server itself refuses writes from a replica that does not hold the Lease
	// or, in a [Sharded] program, is not a member. Set it to the function
	// [FencingPolicy]. Defaults to nil, which makes the program 31 kB smaller.
	FencingPolicy func(p Program, serviceAccount string) (string, error)
	// Profiles serves /debug/pprof/ to clients that may see the debug page. Set
	// it to the result of profiles.Handler (package status/profiles). Defaults
	// to nil, which serves no profiles.
	Profiles http.Handler
	// Setup makes the controllers. It is called once. Use [Env.Context] for
	// requests. While it runs, /readyz reports that the program is starting,
	// and /metrics and the debug page do not show controllers yet.
	//
	// The kinds of [cluster.NewKind] must exist on the server, unless only
	// controllers with reconcile.Options.Optional watch them. Such a controller
	// starts when its kind is installed, without a restart.
	//
	// Setup returns the controllers to run. There must be at least one, and
	// none of them may be nil. With --leader-elect at least one must have
	// options from [Env.Options].
	//
	// If Setup returns an error or panics, the program exits with code 1 before
	// a controller runs. It also does so if Setup has not returned 5 seconds
	// after Env.Context has ended. After a signal, an error that only reports
	// the end of Env.Context leads to exit code 0.
	Setup func(env Env) ([]*reconcile.Controller, error)
	// Beside runs in every replica while the controllers run. For example, it
	// can serve webhooks. It is called after Setup. ctx ends when the
	// controllers have drained. An error or a panic before that ends the
	// program. If Beside has not returned 30 seconds after the end of ctx, the
	// program exits with code 1. Defaults to nil, which runs only the
	// controllers.
	Beside func(ctx context.Context, env Env) error
	// ReadyWithoutCaches makes the process ready as soon as the controllers
	// run, before the caches are filled. Set it if Beside serves a conversion
	// webhook. Otherwise the caches wait for the API server, the API server
	// waits for the webhook, and the webhook's Service waits for a Pod that is
	// ready. Defaults to false.
	ReadyWithoutCaches bool
}

// Replicas defines how the replicas of a program with --leader-elect divide the
// work. Without that flag, each replica does all of the work.
type Replicas uint8

const (
	// LeaderElected lets one replica work. The others keep their caches filled,
	// to take over quickly.
	LeaderElected Replicas = iota
	// Sharded lets all replicas work, each on its share of the keys. The
	// program must have exactly one controller.
	Sharded
	// Independent lets each process work on its own, without --leader-elect.
	// For example, one process per node works on the objects of its node.
	Independent
)
