package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

// Server answers about controllers while they run.
type Server struct {
	// Address to listen on; ":8080" is what the kubelet reaches. Empty serves
	// nothing.
	Address string
	// Cluster is asked who may see the page and the profiles. It is required with an
	// Address.
	Cluster *cluster.Cluster
	// Metrics takes the collectors of the controllers, and is served on /metrics.
	// Defaults to a new registry.
	Metrics *prometheus.Registry
	// Profiles is the handler returned by profiles.Handler, served on /debug/pprof/ to
	// those who may see the page. Nil serves none, and leaves 300 kB out of the program.
	Profiles http.Handler
}

// Run runs the controllers until ctx ends, and serves /livez, /readyz, /metrics,
// /debug/homeostat and /debug/pprof/ until they have drained.
//
// Errors: those of [reconcile.RunAll] and [status.Serve], joined.
func (s *Server) Run(ctx context.Context, controllers ...*reconcile.Controller) error {
	if s.Address == "" {
		return reconcile.RunAll(ctx, controllers...)
	}
	registry := s.Metrics
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	err := errors.Join(
		registry.Register(metrics.New(controllers...)),
		registry.Register(metrics.Requests()),
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	handler, err := status.New(&status.Options{
		Controllers: controllers, Gatherer: registry, Authorize: Authorize(s.Cluster), Profiles: s.Profiles,
	})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	serving, done := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		defer stop() // without probes the kubelet would end it anyway
		ended <- status.Serve(serving, s.Address, handler)
	}()
	err = reconcile.RunAll(working, controllers...)
	done()
	return errors.Join(err, <-ended)
}

// Authorize returns a status.Options.Authorize that lets everyone see the metrics,
// which name no objects, and everything else those whose token the API server
// knows and allows to "get" the path.
func Authorize(c *cluster.Cluster) func(*http.Request) error {
	reviewed := status.Reviewed(c.Client())
	return func(r *http.Request) error {
		if r.URL.Path == "/metrics" {
			return nil
		}
		return reviewed(r)
	}
}
