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

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

const (
	// patience bounds how long a probe waits for all its checks together. The
	// kubelet's default is a second.
	patience = 500 * time.Millisecond
	// defaultKeys is the number of keys of each controller that the page shows without
	// ?keys=N, and maxKeys the most that it shows.
	defaultKeys = 50
	maxKeys     = 1000
	// defaultRefresh is how often the page refreshes itself.
	defaultRefresh = 5 * time.Second
)

// ErrUnauthenticated is for Options.Authorize: an error that wraps it is answered
// with 401 instead of 403, which makes browsers ask for a password.
var ErrUnauthenticated = errors.New("not authenticated")

// Options of the handler. Nil and zero fields mean the defaults.
type Options struct {
	// Controllers to show, in this order. Their names must differ. There may be none:
	// then only the additional checks and metrics are served.
	Controllers []*reconcile.Controller
	// Gatherer is served on /metrics, such as a prometheus.Registry. If it fails, the
	// answer is a 500 and nothing else. It must be safe for concurrent use. Defaults
	// to a registry of the controllers, client-go's requests, the Go runtime and the
	// process.
	Gatherer prometheus.Gatherer
	// Live and Ready are additional checks of /livez and /readyz, by name. A check
	// that does not return within half a second counts as failed, and is not called
	// again until it has returned. Its error is shown to every client that can
	// connect: put no secrets into it. Both must be safe for concurrent use. Defaults
	// to none.
	Live, Ready map[string]func() error
	// Problems returns what the program cannot do although it goes on, such as reaching
	// an optional cluster. /readyz names them after those of the controllers, and stays
	// 200. It is called by every probe and scrape: it must return at once, and be safe
	// for concurrent use. See [inspect.Problem]. Defaults to none.
	Problems func() []inspect.Problem
	// ReadyWithoutCaches makes a process ready whose caches are not filled yet; /readyz
	// names them nevertheless. It is for a process that serves a conversion webhook: its
	// caches wait for the API server, which waits for the webhook, whose Service sends
	// requests to Pods that are ready. Defaults to false: a process is ready once all
	// caches are filled.
	ReadyWithoutCaches bool
	// Authorize is called before anything but the probes is served; an error refuses
	// the request, with 401 if it wraps [ErrUnauthenticated] and 403 otherwise. The
	// answer does not contain the error. It must be safe for concurrent use.
	// [Reviewed] makes one that asks the API server. Defaults to none: every client
	// that can connect may see /metrics and /debug/homeostat, and there is no
	// /debug/pprof/.
	Authorize func(r *http.Request) error
	// Profiles serves the paths below /debug/pprof/, behind Authorize and never
	// without it. Package status/profiles has one. Defaults to none: profiles add 300
	// kB to a program.
	Profiles http.Handler
}

// furtherProblems returns those of the program.
func (o *Options) furtherProblems() []inspect.Problem {
	if o.Problems == nil {
		return nil
	}
	return o.Problems()
}

// problems returns those of the controllers and of the program.
func (o *Options) problems() []inspect.Problem {
	return append(inspect.Problems(o.Controllers...), o.furtherProblems()...)
}

// withDefaults returns the options with a gatherer. Errors: as validate, or the
// metrics of the controllers cannot be registered.
func (o *Options) withDefaults() (Options, error) {
	set := ptr.Deref(o, Options{})
	if err := set.validate(); err != nil {
		return set, err
	}
	if set.Gatherer == nil {
		registry := prometheus.NewRegistry()
		err := errors.Join(
			registry.Register(metrics.New(set.Controllers...)),
			registry.Register(metrics.Problems(set.furtherProblems)),
			registry.Register(metrics.Requests()),
			registry.Register(collectors.NewGoCollector()),
			registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
		if err != nil {
			return set, err
		}
		set.Gatherer = registry
	}
	return set, nil
}

// validate returns every wrong option, joined.
func (o *Options) validate() error {
	check := option.Of("status.Options")
	names := map[string]bool{}
	for i, c := range o.Controllers {
		field := fmt.Sprintf("Controllers[%d]", i)
		if c == nil {
			check.Wrong(field, nil, "make one with reconcile.New")
			continue
		}
		check.That(!names[c.Name()], field, c.Name(), "must not have the name of another")
		names[c.Name()] = true
	}
	for field, checks := range map[string]map[string]func() error{"Live": o.Live, "Ready": o.Ready} {
		for _, name := range slices.Sorted(maps.Keys(checks)) {
			key := fmt.Sprintf("%s[%q]", field, name)
			check.That(name != "", key, option.Set, "must have a name")
			check.That(checks[name] != nil, key, nil, "must be a function")
		}
	}
	return check.Err()
}
