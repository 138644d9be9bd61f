package operator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile"
)

// Env contains what Setup makes the controllers from: clusters, recorder,
// leader and metrics. Its methods are safe for concurrent use. Tests of a Setup
// make one with [NewEnv].
type Env struct {
	// Context ends when the process receives SIGTERM or SIGINT, or when it can
	// no longer serve its probes. The controllers then drain. It carries the
	// logger.
	Context context.Context
	// Cluster is the cluster that --kubeconfig names. Controllers see their own
	// writes through its clients. With --leader-elect it refuses writes while
	// this replica does not lead or, in a [Sharded] program, is not a member of
	// the shards. So it also refuses writes during Setup.
	Cluster *cluster.Cluster
	// Clusters contains Program.Clusters by name. They refuse writes as Cluster
	// does.
	Clusters map[string]*cluster.Cluster
	// Events records Kubernetes Events in Cluster, with Program.Name as the
	// reporting controller. It is safe for concurrent use, and does not wait
	// for the server.
	Events events.EventRecorder
	// Leader elects the replica that works. It is nil without --leader-elect,
	// and for a [Sharded] program.
	Leader reconcile.Leader
	// Shards divides the keys among the replicas. It is nil unless
	// --leader-elect is set and the program is [Sharded].
	Shards reconcile.Shards
	// Metrics registers the program's own collectors, so that /metrics serves
	// them. If MustRegister refuses a collector, the program exits after Setup
	// with an error that names it. If a collector panics at a scrape, or has
	// not returned after 5 seconds, the log names it, and /metrics serves the
	// others.
	Metrics prometheus.Registerer

	asker asker
}

// Options returns new controller options with the environment's Leader, Shards
// and Events. The caller may change them.
func (e Env) Options() *reconcile.Options {
	return &reconcile.Options{Leader: e.Leader, Shards: e.Shards, Events: e.Events}
}

// CheckPermissions checks permissions that Setup can do without, in the
// clusters of the environment. For example:
//
//	if err := env.CheckPermissions("list,watch secrets"); errors.Is(err, operator.ErrPermission) { … }
//
// The needs have the form of [Program.Needs]. A question mark after a namespace
// has no effect here.
//
// CheckPermissions returns the errors of the function [CheckPermissions]. Only
// [ErrPermission] means that the server has refused. An optional cluster must
// answer within 15 seconds.
func (e Env) CheckPermissions(needs ...string) error {
	asks := e.asker
	if asks.clusters == nil { // a test has made e as a literal
		asks = asker{maps.Clone(e.Clusters), time.Minute, noneOptional}
		if asks.clusters == nil {
			asks.clusters = map[string]*cluster.Cluster{}
		}
		asks.clusters[first] = e.Cluster
	}
	permissions, err := parseNeeds(needs, slices.Collect(maps.Keys(asks.clusters)))
	if err != nil {
		return err
	}
	return asks.check(e.Context, permissions)
}

// fencer is an elector that can change a config so that its clients write only
// while this replica leads.
type fencer interface {
	Fence(config *rest.Config) *rest.Config
}

var (
	_ fencer = (*leader.Elector)(nil)
	_ fencer = (*shard.Shards)(nil)
)

// withClusters returns e with clusters made from configs. If e has a Leader or
// Shards, the clusters refuse writes while this replica does not lead.
func (e Env) withClusters(configs map[string]*rest.Config) (Env, error) {
	fenced := map[string]*rest.Config{}
	for name, config := range configs {
		for _, elector := range []any{e.Leader, e.Shards} {
			if f, ok := elector.(fencer); ok {
				config = f.Fence(config)
			}
		}
		fenced[name] = config
	}
	made, err := clustersOf(fenced)
	e.Cluster = made[first]
	delete(made, first)
	e.Clusters = made
	return e, err
}

// check asks the servers of all required clusters, at the same time, whether
// they have the kinds that the controllers need.
func (e Env) check(timeout time.Duration, controllers []*reconcile.Controller) error {
	clusters := maps.Clone(e.Clusters)
	clusters[first] = e.Cluster
	maps.DeleteFunc(clusters, func(name string, _ *cluster.Cluster) bool { return e.asker.optional(name) })
	return forEachCluster(slices.Sorted(maps.Keys(clusters)), func(name string) error {
		c := clusters[name]
		dispensable := readers(controllers).dispensable(serverOf(c))
		return persist(e.Context, c, timeout, func(ctx context.Context) error { return c.Check(ctx, dispensable...) })
	})
}

// forEachCluster calls f for all clusters at the same time, and joins the
// errors.
func forEachCluster(clusters []string, f func(name string) error) error {
	errs := make([]error, len(clusters))
	var asking sync.WaitGroup
	for i, name := range clusters {
		asking.Go(func() { errs[i] = inCluster(name, f(name)) })
	}
	asking.Wait()
	return errors.Join(errs...)
}

// clustersOf returns a cluster for each config, by name.
func clustersOf(configs map[string]*rest.Config) (map[string]*cluster.Cluster, error) {
	clusters := map[string]*cluster.Cluster{}
	for name, config := range configs {
		c, err := cluster.New(config, nil)
		if err != nil {
			return nil, inCluster(name, err)
		}
		clusters[name] = c
	}
	return clusters, nil
}
