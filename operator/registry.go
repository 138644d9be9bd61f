package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// registerOwn registers the collectors that every program has. It accepts a
// collector that is registered already.
func registerOwn(registry prometheus.Registerer, problems func() []inspect.Problem) error {
	own := map[string]prometheus.Collector{
		"of client-go's requests": metrics.Requests(),
		"of the Go runtime":       collectors.NewGoCollector(),
		"of problems":             metrics.Problems(problems),
		"of the process":          collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	var errs []error
	for name, collector := range own {
		err := registry.Register(collector)
		if _, registered := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !registered {
			errs = append(errs, fmt.Errorf("registering the metrics %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// clashes gathers the metrics once, and returns an error that names the metrics
// that two collectors serve. Such metrics would make every scrape fail. The
// error of a single collector is ignored, because the collector may work later.
func clashes(g prometheus.Gatherer) error {
	_, err := g.Gather()
	if err == nil {
		return nil
	}
	errs := []error{err}
	if multi, ok := errors.AsType[prometheus.MultiError](err); ok {
		errs = multi
	}
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool {
		return strings.HasPrefix(err.Error(), "error collecting metric ")
	})
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("gathering the metrics once: %w: give the metrics of the program's own collectors names that are "+
		"not in docs/operating.md, or each scrape would fail", errors.Join(errs...))
}

// registerer is a prometheus.Registerer whose errors name the collector, and
// whose MustRegister does not panic.
type registerer struct {
	inner prometheus.Registerer

	mu      sync.Mutex // guards refused
	refused []error
}

// Register registers a collector. A collector can be registered only once.
func (r *registerer) Register(c prometheus.Collector) error {
	err := r.inner.Register(&guardedCollector{Collector: c})
	if err == nil {
		return nil
	}
	advice := "give its metrics other names, and leave out the Go, process and client-go request collectors, " +
		"which the program has registered"
	if known, registered := errors.AsType[prometheus.AlreadyRegisteredError](err); registered {
		err = prometheus.AlreadyRegisteredError{ExistingCollector: unwrap(known.ExistingCollector), NewCollector: c}
		advice = "register it once; the program has registered the Go, process and client-go request collectors"
	}
	return fmt.Errorf("registering collector %T on Env.Metrics: %w: %s", c, err, advice)
}

// MustRegister registers collectors. A refused collector ends the program after
// Setup.
func (r *registerer) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			r.mu.Lock()
			r.refused = append(r.refused, err)
			r.mu.Unlock()
		}
	}
}

// Unregister removes a collector.
func (r *registerer) Unregister(c prometheus.Collector) bool { return r.inner.Unregister(c) }

func (r *registerer) errs() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.refused...)
}
