package status

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

const (
	// patience bounds how long a probe waits for all its checks together. The
	// kubelet's default is a second.
	patience = 500 * time.Millisecond
	// defaultKeys is the number of keys of each controller that the page shows
	// without ?keys=N. maxKeys is the most that it shows.
	defaultKeys = 50
	maxKeys     = 1000
	// defaultRefresh is how often the page refreshes itself.
	defaultRefresh = 5 * time.Second
)

// ErrUnauthenticated is for Options.Authorize. An error that wraps it is
// answered with status 401 instead of 403, so that browsers ask for a password.
var ErrUnauthenticated = errors.New("not authenticated")

// Options configures the handler. Nil and zero fields mean the defaults.
type Options struct {
	// Controllers are the controllers to show, in this order. Their names must
	// differ. Without controllers, the handler serves only the metrics, and the
	// checks, the problems and the informers of the other options.
	Controllers []*reconcile.Controller
	// Gatherer is served on /metrics, for example a prometheus.Registry. If it
	// fails for some metrics, the others are served, and the error is logged.
	// If it fails and returns no metrics, the answer is a 500 with the error.
	// It must be safe for concurrent use. Defaults to a registry of the
	// controllers, the problems, the requests of client-go, the Go runtime and
	// the process.
	Gatherer prometheus.Gatherer
	// Liveness and Readiness are additional checks of /livez and /readyz, by
	// name. A check that does not return within half a second counts as failed,
	// and is not called again until it has returned. Its error is shown to
	// every client that can connect, so it must not contain secrets. The checks
	// must be safe for concurrent use. Defaults to no additional checks.
	Liveness, Readiness map[string]func() error
	// Problems returns problems that do not stop the program, such as an
	// optional cluster that it cannot reach; see [inspect.Problem]. /readyz
	// names them after the controllers' problems, and still answers 200.
	// Requests for /readyz, /debug/homeostat and, with the default Gatherer,
	// /metrics call Problems, so it must return immediately and be safe for
	// concurrent use. If it panics, or has not returned within half a second,
	// /readyz names that as a problem, too. Defaults to no problems.
	Problems func() []inspect.Problem
	// Informers returns the state of informers that no controller here uses,
	// such as the informers of a manager of controller-runtime. They are shown
	// and checked like the controllers' informers, by /livez too. The default
	// Gatherer counts their problems; their other metrics are added with
	// metrics.Informers. Requests for the probes, /debug/homeostat and, with
	// the default Gatherer, /metrics call Informers, so it must return
	// immediately and be safe for concurrent use. If it panics, or has not
	// returned within half a second, /readyz names that as a problem. Defaults
	// to no informers.
	Informers func() []informer.Status
	// ReadyWithoutCaches makes a process ready although its caches are not
	// filled yet; /readyz still names them. A process that serves a conversion
	// webhook needs it. Its caches wait for the API server, and the API server
	// waits for the webhook, whose Service sends requests only to Pods that are
	// ready. Defaults to false: a process is not ready while a cache that it
	// needs is not filled.
	ReadyWithoutCaches bool
	// Authorize is called for every request except the probes. An error refuses
	// the request, with status 401 if it wraps [ErrUnauthenticated] and 403
	// otherwise. The answer does not contain the error. Authorize must be safe
	// for concurrent use. [Reviewed] returns a function that asks the API
	// server; requests that the server has not reviewed are refused with a 503
	// that names the cause.
	//
	// Without Authorize, every client that can connect may see /metrics and
	// /debug/homeostat, and /debug/pprof/ is not served.
	Authorize func(r *http.Request) error
	// Profiles serves the paths below /debug/pprof/. It is served only with
	// Authorize, and behind it. Package status/profiles has a handler. Defaults
	// to no profiles, since they add 300 kB to a program.
	Profiles http.Handler
}

// withDefaults returns the options with a Gatherer. It turns the functions
// Problems and Informers into sources, whose method get returns in time even if
// a function hangs.
//
// It returns the mistakes in the options, or an error if the metrics of the
// controllers cannot be registered.
func (o *Options) withDefaults() (*sources, error) {
	set := &sources{Options: ptr.Deref(o, Options{})}
	if err := set.validate(); err != nil {
		return nil, err
	}
	set.problems.list, set.informers.list = set.Problems, set.Informers
	if set.Gatherer == nil {
		registry := prometheus.NewRegistry()
		err := errors.Join(
			registry.Register(metrics.New(set.Controllers...)),
			registry.Register(metrics.Problems(set.counted)),
			registry.Register(metrics.Requests()),
			registry.Register(collectors.NewGoCollector()),
			registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
		if err != nil {
			return nil, err
		}
		set.Gatherer = registry
	}
	return set, nil
}

// validate returns the mistakes in the options, joined.
func (o *Options) validate() error {
	check := option.Of("status.Options")
	names := map[string]bool{}
	for i, c := range o.Controllers {
		field := fmt.Sprintf("Controllers[%d]", i)
		if c == nil {
			check.Wrong(field, nil, "make one with reconcile.New")
			continue
		}
		check.That(!names[c.Name()], field, c.Name(), "must not have the name of another controller")
		names[c.Name()] = true
	}
	for field, checks := range map[string]map[string]func() error{"Liveness": o.Liveness, "Readiness": o.Readiness} {
		for _, name := range slices.Sorted(maps.Keys(checks)) {
			key := fmt.Sprintf("%s[%q]", field, name)
			check.That(name != "", key, option.Set, "must have a name")
			check.That(checks[name] != nil, key, nil, "must be a function")
		}
	}
	return check.Err()
}
