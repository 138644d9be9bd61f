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

// Env provides what controllers are made from. Tests of a Setup make one with
// [NewEnv]. Its methods are safe for concurrent use.
type Env struct {
	// Context ends when the process is told to stop, before the controllers have
	// drained. It carries the logger.
	Context context.Context
	// Cluster is the cluster that the flags name. Writes of a reconcile through
	// it are seen. With --leader-elect writes are refused unless this replica
	// leads, hence also during Setup.
	Cluster *cluster.Cluster
	// Clusters are those of Program.Clusters, by name. They are fenced like
	// Cluster.
	Clusters map[string]*cluster.Cluster
	// Events records Kubernetes Events in the cluster that the flags name,
	// reported by Program.Name. It is safe for concurrent use, and does not
	// wait for the server.
	Events events.EventRecorder
	// Leader is nil without --leader-elect.
	Leader reconcile.Leader
	// Shards is nil without --leader-elect and [Sharded].
	Shards reconcile.Shards
	// Metrics takes the program's own collectors; /metrics serves them. If
	// MustRegister cannot accept one, the program ends after Setup, with an
	// error that names it.
	Metrics prometheus.Registerer

	asks asker
}

// Options returns new controller options with the environment's Leader, Shards and
// Events, and the defaults otherwise. The caller may change them.
func (e Env) Options() *reconcile.Options {
	return &reconcile.Options{Leader: e.Leader, Shards: e.Shards, Events: e.Events}
}

// CheckPermissions is the function [CheckPermissions] for permissions that
// Setup can do without, with the clusters of the environment: needs have the
// form of [Program.Needs].
//
// Errors: as for the function; only [ErrPermission] means that the server has
// refused. An optional cluster that does not answer is given up after 15
// seconds.
//
//	if err := env.CheckPermissions("list,watch secrets"); errors.Is(err, operator.ErrPermission) { … }
func (e Env) CheckPermissions(needs ...string) error {
	asks := e.asks
	if asks.clusters == nil { // of a test, by hand
		asks = asker{maps.Clone(e.Clusters), time.Minute, none}
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

// fencer refuses writes after the end of a leadership.
type fencer interface {
	Fence(config *rest.Config) *rest.Config
}

var (
	_ fencer = (*leader.Elector)(nil)
	_ fencer = (*shard.Shards)(nil)
)

// reach returns e with its clusters, to which only the leader can write.
func (e Env) reach(configs map[string]*rest.Config) (Env, error) {
	fenced := map[string]*rest.Config{}
	for name, config := range configs {
		for _, by := range []any{e.Leader, e.Shards} {
			if f, ok := by.(fencer); ok {
				config = f.Fence(config)
			}
		}
		fenced[name] = config
	}
	all, err := clustersOf(fenced)
	e.Cluster = all[first]
	delete(all, first)
	e.Clusters = all
	return e, err
}

// check asks every server that the program cannot do without whether it has the
// kinds that controllers need, all servers at the same time.
func (e Env) check(timeout time.Duration, controllers []*reconcile.Controller) error {
	clusters := maps.Clone(e.Clusters)
	clusters[first] = e.Cluster
	maps.DeleteFunc(clusters, func(name string, _ *cluster.Cluster) bool { return e.asks.optional(name) })
	return each(slices.Sorted(maps.Keys(clusters)), func(name string) error {
		c := clusters[name]
		dispensable := readers(controllers).dispensable(serverOf(c))
		return persist(e.Context, c, timeout, func(ctx context.Context) error { return c.Check(ctx, dispensable...) })
	})
}

// each calls f for all clusters at the same time, and returns the errors, joined.
func each(clusters []string, f func(name string) error) error {
	errs := make([]error, len(clusters))
	var asking sync.WaitGroup
	for i, name := range clusters {
		asking.Go(func() { errs[i] = inCluster(name, f(name)) })
	}
	asking.Wait()
	return errors.Join(errs...)
}

// clustersOf makes the clusters of configs, by name.
func clustersOf(configs map[string]*rest.Config) (map[string]*cluster.Cluster, error) {
	all := map[string]*cluster.Cluster{}
	for name, config := range configs {
		c, err := cluster.New(config, nil)
		if err != nil {
			return nil, inCluster(name, err)
		}
		all[name] = c
	}
	return all, nil
}
