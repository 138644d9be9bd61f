package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
	"github.com/homeostat/homeostat/status"
)

// Server runs controllers and serves their probes, metrics and debug page.
type Server struct {
	// Address to listen on, such as ":8080", which the kubelet can reach. If empty,
	// nothing is served.
	Address string
	// Cluster is asked which clients may see the page and the profiles. It is
	// required with an Address.
	Cluster *cluster.Cluster
	// Metrics takes the collectors of the controllers, and is served on /metrics.
	// Defaults to a new registry.
	Metrics *prometheus.Registry
	// Profiles is the handler returned by profiles.Handler, served on
	// /debug/pprof/ to clients that may see the page. Nil serves none, and
	// leaves 300 kB out of the program.
	Profiles http.Handler
	// ReadyWithoutCaches makes the process ready before its caches are filled,
	// once the controllers run; see status.Options.ReadyWithoutCaches.
	ReadyWithoutCaches bool
	// MetricsAuth shows the metrics only to clients that may "get" /metrics, as
	// the page. Defaults to false: they name no objects, and every client that
	// can connect reads them.
	MetricsAuth bool
	// CertFile and KeyFile are PEM files by which everything is served over
	// TLS. They are read again when they change, as those of a mounted Secret
	// do. Default to none: plain HTTP.
	CertFile, KeyFile string
}

// Run runs the controllers until ctx ends, and serves /livez, /readyz, /metrics,
// /debug/homeostat and /debug/pprof/ until they have drained. It returns when
// everything has ended; if the listener fails, the controllers stop. Without an
// Address it only runs the controllers.
//
// Errors: those of [reconcile.RunAll] and [status.ServeOn], joined; an Address
// that cannot be listened on, or one without a Cluster; files that are no pair;
// collectors in Metrics that clash with the program's.
func (s *Server) Run(ctx context.Context, controllers ...*reconcile.Controller) error {
	return s.RunSetup(ctx, func(context.Context) ([]*reconcile.Controller, error) { return controllers, nil })
}

// RunSetup is Run with the controllers that setup returns. The probes answer before
// it is called: until the controllers run, /readyz says that the process is
// starting. The context of setup ends with ctx.
//
// Errors: those of setup and of Run.
func (s *Server) RunSetup(
	ctx context.Context, setup func(ctx context.Context) ([]*reconcile.Controller, error),
) error {
	if setup == nil {
		return errors.New("running controllers: setup is nil: must be a function that makes them")
	}
	return s.serve(ctx, func(ctx context.Context, handler *front) error {
		controllers, err := setup(ctx)
		if err != nil {
			return err
		}
		return s.control(ctx, handler, controllers)
	})
}

// serve answers while work runs: at first without controllers.
func (s *Server) serve(ctx context.Context, work func(ctx context.Context, handler *front) error) error {
	if s.Address == "" {
		return work(ctx, nil)
	}
	if s.Cluster == nil {
		return errors.New("serving probes and metrics: Server.Cluster is nil: must be the cluster that knows " +
			"who may see the page")
	}
	if s.Metrics == nil {
		with := *s
		with.Metrics = prometheus.NewRegistry()
		s = &with
	}
	handler := &front{server: s}
	if err := registerOwn(s.Metrics, handler.problems); err != nil {
		return err
	}
	if err := handler.show(); err != nil {
		return err
	}
	listener, certificate, err := s.listen(ctx)
	if err != nil {
		return fmt.Errorf("serving probes and metrics: %w", err)
	}
	ctx = context.WithValue(ctx, frontKey{}, handler)
	reportProblems(ctx, certificate.problems)
	working, stop := context.WithCancel(ctx)
	defer stop()
	serving, done := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		defer stop() // without probes the kubelet would end it anyway
		ended <- status.ServeOn(serving, listener, handler)
	}()
	err = work(working, handler)
	done()
	return errors.Join(err, <-ended)
}

// listen returns the listener, and its certificate if it has one.
func (s *Server) listen(ctx context.Context) (net.Listener, *certificate, error) {
	c, err := readCertificate(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", s.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: choose another Address (--listen-addr), or none", err)
	}
	if c != nil {
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get})
	}
	return l, c, nil
}

// control runs the controllers, and shows them.
func (s *Server) control(ctx context.Context, handler *front, controllers []*reconcile.Controller) error {
	if handler != nil {
		if err := handler.server.Metrics.Register(metrics.New(controllers...)); err != nil {
			return fmt.Errorf("registering the metrics of the controllers: %w", err)
		}
		if err := clashes(handler.server.Metrics); err != nil {
			return err
		}
		if err := handler.show(controllers...); err != nil {
			return err
		}
	}
	return reconcile.RunAll(ctx, controllers...)
}

// front is the handler that answers now. Its server has a registry.
type front struct {
	server *Server
	now    atomic.Pointer[http.Handler]

	mu      sync.Mutex        // guards the following
	waits   map[string]string // why there are no controllers yet, by what is waited for
	sources []func() []inspect.Problem
}

// ServeHTTP answers by the present handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*f.now.Load()).ServeHTTP(w, r) }

// show answers about controllers from now on; without any, the process is starting.
func (f *front) show(controllers ...*reconcile.Controller) error {
	options := &status.Options{
		Controllers: controllers, Gatherer: f.server.Metrics, Authorize: f.server.authorize(),
		Profiles: f.server.Profiles, Problems: f.problems,
		ReadyWithoutCaches: f.server.ReadyWithoutCaches,
	}
	if len(controllers) == 0 {
		options.Ready = map[string]func() error{"start": f.starting}
	}
	handler, err := status.New(options)
	if err == nil {
		f.now.Store(&handler)
	}
	return err
}

func (f *front) starting() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var waits []string
	for _, about := range slices.Sorted(maps.Keys(f.waits)) {
		waits = append(waits, f.waits[about])
	}
	if len(waits) > 0 {
		return fmt.Errorf("starting: %s", strings.Join(waits, "; "))
	}
	return errors.New("starting: the controllers are being made")
}

// problems returns those of all sources.
func (f *front) problems() []inspect.Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []inspect.Problem
	for _, source := range f.sources {
		all = append(all, source()...)
	}
	return all
}

// reportProblems adds a source of problems that belong to no controller and to no
// informer, for as long as the process lives: for example, a cluster that may be
// absent. It sets Check, such as "cluster/west", and returns nil while all is well.
// It is called by every probe and scrape: it must return at once and be safe for
// concurrent use.
func reportProblems(ctx context.Context, source func() []inspect.Problem) {
	if f, ok := ctx.Value(frontKey{}).(*front); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.sources = append(f.sources, source)
	}
}

// frontKey is the key of the front in a context.
type frontKey struct{}

// starting says what the start of the process waits for about a server or a
// step, and with an empty format that it waits no longer.
func starting(ctx context.Context, about, format string, args ...any) {
	f, ok := ctx.Value(frontKey{}).(*front)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.waits, about); format == "" {
		return
	}
	if f.waits == nil {
		f.waits = map[string]string{}
	}
	f.waits[about] = fmt.Sprintf(format, args...)
}

// authorize returns who may see what.
func (s *Server) authorize() func(*http.Request) error {
	if s.MetricsAuth && s.Cluster != nil {
		return status.Reviewed(s.Cluster.Client())
	}
	return Authorize(s.Cluster)
}

// Authorize returns a status.Options.Authorize that shows the metrics, which
// name no objects, to every client, and everything else only to clients whose
// token the API server authenticates and allows to "get" the path. It is safe
// for concurrent use; c needs the permissions of a [status.ReviewClient].
// Without a cluster every request is refused.
//
// Errors: those of [status.Reviewed].
func Authorize(c *cluster.Cluster) func(*http.Request) error {
	if c == nil {
		return func(*http.Request) error { return fmt.Errorf("authorizing: %w", errNoCluster) }
	}
	reviewed := status.Reviewed(c.Client())
	return func(r *http.Request) error {
		if r.URL.Path == "/metrics" {
			return nil
		}
		return reviewed(r)
	}
}
