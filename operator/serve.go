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
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
	"github.com/homeostat/homeostat/status"
)

// Server runs controllers and serves their probes, metrics and debug page.
type Server struct {
	// Address is the address to listen on, such as ":8080". The kubelet must be
	// able to reach it. If it is empty, the Server does not listen.
	Address string
	// Cluster decides which clients may see the debug page and the profiles. It
	// is required with an Address.
	Cluster *cluster.Cluster
	// Metrics is served on /metrics. If there is an Address, Run registers the
	// collectors of the controllers with it. Defaults to a new registry.
	Metrics *prometheus.Registry
	// Profiles serves /debug/pprof/ to clients that may see the debug page. Set
	// it to the result of profiles.Handler. Defaults to nil, which serves no
	// profiles and makes the program 300 kB smaller.
	Profiles http.Handler
	// ReadyWithoutCaches makes the process ready as soon as the controllers
	// run, before the caches are filled; see status.Options.ReadyWithoutCaches.
	// Defaults to false.
	ReadyWithoutCaches bool
	// MetricsAuth serves the metrics only to clients that may "get" /metrics.
	// Defaults to false: every client that can connect can read the metrics,
	// which name no objects.
	MetricsAuth bool
	// CertFile and KeyFile are PEM files with the certificate and the key for
	// TLS. They are read again when they change, as the files of a mounted
	// Secret do. They default to plain HTTP.
	CertFile, KeyFile string
}

// Run runs the controllers until ctx ends. It serves /livez, /readyz, /metrics,
// /debug/homeostat and, with Profiles, /debug/pprof/ until the controllers have
// drained, and returns after all of its goroutines have ended. If the listener
// fails, the controllers stop. Without an Address it only runs the controllers.
//
// Run returns the errors of [reconcile.RunAll] and [status.ServeOn], joined.
// Before it runs the controllers, it returns an error if it cannot listen on
// Address, if an Address is set without a Cluster, if MetricsAuth or a
// certificate is set without an Address, if the certificate and the key cannot
// be read or do not match, or if collectors in Metrics clash with the program's
// own.
func (s *Server) Run(ctx context.Context, controllers ...*reconcile.Controller) error {
	return s.RunSetup(ctx, func(context.Context) ([]*reconcile.Controller, error) { return controllers, nil })
}

// RunSetup runs the controllers that setup returns, as Run does. The probes
// answer while setup runs: until the controllers run, /readyz reports that the
// process is starting. The context of setup ends with ctx, or when the listener
// fails.
//
// RunSetup returns the errors of setup and of Run. It also returns an error if
// setup is nil, if it panics, or if it has not returned 5 seconds after its
// context ended.
func (s *Server) RunSetup(
	ctx context.Context, setup func(ctx context.Context) ([]*reconcile.Controller, error),
) error {
	if setup == nil {
		return errors.New("running controllers: setup is nil: must be a function that makes them")
	}
	return s.serve(ctx, func(ctx context.Context, handler *front) error {
		var controllers []*reconcile.Controller
		err := call(ctx, "setup", setupGrace, func() (err error) {
			controllers, err = setup(ctx)
			return err
		})
		if err != nil {
			return err
		}
		return s.control(ctx, handler, controllers)
	})
}

// serve listens while work runs. work calls handler.show to add its controllers
// to the page and the probes. If s has no Address, serve does not listen, and
// calls work with a nil handler.
func (s *Server) serve(ctx context.Context, work func(ctx context.Context, handler *front) error) error {
	if s.Address == "" {
		if err := s.unserved(); err != nil {
			return err
		}
		return work(ctx, nil)
	}
	if s.Cluster == nil {
		return errors.New("serving probes and metrics: Server.Cluster is nil: must be the cluster that " +
			"decides who may see the page")
	}
	if s.Metrics == nil {
		withMetrics := *s
		withMetrics.Metrics = prometheus.NewRegistry()
		s = &withMetrics
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
		defer stop() // without probes the kubelet would end the process anyway
		ended <- status.ServeOn(serving, listener, handler)
	}()
	err = work(working, handler)
	done()
	return errors.Join(err, <-ended)
}

// unserved returns an error that names the fields that must not be set without
// an Address. They would have no effect, because the Server would not listen.
func (s *Server) unserved() error {
	check := option.Of("operator.Server")
	const advice = "must not be set without an Address: the Server would not listen"
	check.That(!s.MetricsAuth, "MetricsAuth", s.MetricsAuth, advice)
	check.That(s.CertFile == "", "CertFile", s.CertFile, advice)
	check.That(s.KeyFile == "", "KeyFile", s.KeyFile, advice)
	return check.Err()
}

// listen returns the listener and, with TLS, its certificate.
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

// control adds the controllers to the page, the probes and the metrics, and
// runs them.
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

// front is an HTTP handler that delegates to the current handler. The Metrics
// of its server must be set.
type front struct {
	server  *Server
	current atomic.Pointer[http.Handler]

	mu      sync.Mutex        // guards the fields below
	waits   map[string]string // why there are no controllers yet, by server or step
	sources []func() []inspect.Problem
}

// ServeHTTP delegates to the current handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*f.current.Load()).ServeHTTP(w, r)
}

// show replaces the handler with one that serves the controllers. Without
// controllers it reports that the process is starting.
func (f *front) show(controllers ...*reconcile.Controller) error {
	options := &status.Options{
		Controllers: controllers, Gatherer: f.server.Metrics, Authorize: f.server.authorize(),
		Profiles: f.server.Profiles, Problems: f.problems,
		ReadyWithoutCaches: f.server.ReadyWithoutCaches,
	}
	if len(controllers) == 0 {
		options.Readiness = map[string]func() error{"start": f.starting}
	}
	handler, err := status.New(options)
	if err == nil {
		f.current.Store(&handler)
	}
	return err
}

func (f *front) starting() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var waits []string
	for _, step := range slices.Sorted(maps.Keys(f.waits)) {
		waits = append(waits, f.waits[step])
	}
	if len(waits) > 0 {
		return fmt.Errorf("starting: %s", strings.Join(waits, "; "))
	}
	return errors.New("starting: the controllers are being created")
}

// problems returns the problems of all sources.
func (f *front) problems() []inspect.Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	var problems []inspect.Problem
	for _, source := range f.sources {
		problems = append(problems, source()...)
	}
	return problems
}

// reportProblems adds a source of problems that belong to no controller and no
// informer, such as an optional cluster. source returns problems with a Check,
// such as "cluster/west", or nil if there are no problems. Every probe and
// scrape calls it, so it must return at once and be safe for concurrent use. It
// cannot be removed.
func reportProblems(ctx context.Context, source func() []inspect.Problem) {
	if f, ok := ctx.Value(frontKey{}).(*front); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.sources = append(f.sources, source)
	}
}

// frontKey is the key of the front in a context.
type frontKey struct{}

// starting sets what the start of the process waits for, as the reason in
// /readyz. step is a server or a step of the start. An empty format means that
// the process no longer waits for the step.
func starting(ctx context.Context, step, format string, args ...any) {
	f, ok := ctx.Value(frontKey{}).(*front)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.waits, step); format == "" {
		return
	}
	if f.waits == nil {
		f.waits = map[string]string{}
	}
	f.waits[step] = fmt.Sprintf(format, args...)
}

// authorize returns a function that checks each request. The function returns
// an error for a request that must be refused. With MetricsAuth, it checks
// requests for the metrics as well.
func (s *Server) authorize() func(*http.Request) error {
	if s.MetricsAuth && s.Cluster != nil {
		return status.Reviewed(s.Cluster.Client())
	}
	return Authorize(s.Cluster)
}

// Authorize returns a function for status.Options.Authorize. It shows the
// metrics to every client, because they name no objects. It shows the other
// pages only to clients whose token the API server authenticates and whose user
// may "get" the path. The function is safe for concurrent use. c needs the
// permissions of a [status.ReviewClient]. If c is nil, every request is
// refused.
//
// The function returns the errors of [status.Reviewed].
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
