package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/examples/observe/internal/observer"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
	"github.com/homeostat/homeostat/status/profiles"
)

// serve runs the observer, and serves probes and metrics until the observer has
// drained.
func (s *settings) serve(
	ctx context.Context, config *rest.Config, o *observer.Observer, printed io.Writer,
) error {
	registry := prometheus.NewRegistry()
	for _, c := range append(o.Collectors(), metrics.New(o.Controller), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	result := make(chan error, 1)
	go func() {
		err := s.answer(serving, config, registry, o)
		if err != nil {
			stop() // without probes, the kubelet would end the process anyway
		}
		result <- err
	}()
	err := o.Run(working)
	stopServing()
	if failed := <-result; failed != nil {
		err = failed // the observer has ended for the same reason
	}
	if s.printMetricsOnExit {
		err = errors.Join(err, dump(registry, printed))
	}
	return err
}

// answer serves probes and metrics until ctx ends. It serves nothing if the
// address is empty, or if --listen-addr is not given and either the program
// runs only once or the default address is in use.
func (s *settings) answer(
	ctx context.Context, config *rest.Config, registry prometheus.Gatherer, o *observer.Observer,
) error {
	if s.listenAddr == "" || s.runOnce && !s.listenAddrIsGiven {
		return nil
	}
	reached, err := cluster.New(config, nil)
	if err != nil {
		return err
	}
	handler, err := status.New(&status.Options{
		Controllers: []*reconcile.Controller{o.Controller}, Gatherer: registry,
		Authorize: operator.Authorize(reached), Profiles: profiles.Handler(),
	})
	if err != nil {
		return err
	}
	handler = withHealthz(handler, o.HasSynced)
	quiet := logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).V(1))
	err = status.Serve(quiet, s.listenAddr, handler)
	if errors.Is(err, syscall.EADDRINUSE) && !s.listenAddrIsGiven {
		logr.FromContextOrDiscard(ctx).Info("not serving probes and metrics: the address is in use; "+
			`set --listen-addr to another address, or to "" to serve none`, "address", s.listenAddr)
		return nil
	}
	return err
}

// withHealthz adds the health endpoint of oc observe, with the same paths and
// status codes. The endpoint reports whether the first list has arrived.
func withHealthz(handler http.Handler, synced func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	health := func(w http.ResponseWriter, _ *http.Request) {
		if !synced() {
			http.Error(w, "waiting for the first list", http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprint(w, "ok") // the client may have disconnected
	}
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("GET /healthz/ready", health)
	return mux
}

// dump writes all metrics as text.
func dump(registry prometheus.Gatherer, w io.Writer) error {
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("collecting metrics: %w", err)
	}
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(w, family); err != nil {
			return fmt.Errorf("writing metrics: %w", err)
		}
	}
	return nil
}
