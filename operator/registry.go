package operator

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// registerOwn registers what every program has. A collector that is there already
// serves as well.
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
		if _, there := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !there {
			errs = append(errs, fmt.Errorf("registering the metrics %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// registerer names collectors that cannot be registered, and keeps MustRegister from
// panicking.
type registerer struct {
	to prometheus.Registerer

	mu      sync.Mutex // guards refused
	refused []error
}

// Register registers a collector once.
func (r *registerer) Register(c prometheus.Collector) error {
	err := r.to.Register(c)
	if err == nil {
		return nil
	}
	advice := "give its metrics other names"
	if _, there := errors.AsType[prometheus.AlreadyRegisteredError](err); there {
		advice = "register it once; those of the Go runtime, of the process and of client-go's requests are there already"
	}
	return fmt.Errorf("registering collector %T on Env.Metrics: %w: %s", c, err, advice)
}

// MustRegister registers collectors. One that cannot be registered ends the program
// after Setup.
func (r *registerer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			r.mu.Lock()
			r.refused = append(r.refused, err)
			r.mu.Unlock()
		}
	}
}

// Unregister removes a collector.
func (r *registerer) Unregister(c prometheus.Collector) bool { return r.to.Unregister(c) }

func (r *registerer) errs() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.refused...)
}
