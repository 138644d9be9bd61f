package operator

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/redact"
)

// failedCollector is the description of the metric that stands for a collector
// that has failed. It is never served.
var failedCollector = prometheus.NewDesc("failed_collector", "A collector has failed.", nil, nil)

// guardedCollector is a collector of the program. If it panics, only its own
// metrics are missing. A registry calls collectors in goroutines of its own, so
// a panic would end the process, and runtime.Goexit would block every scrape.
type guardedCollector struct{ prometheus.Collector }

// Describe sends the descriptions of the collector. If it panics, the collector
// is not registered, and the error says so.
func (c guardedCollector) Describe(descs chan<- *prometheus.Desc) {
	if err := guard.Call(func() { c.Collector.Describe(descs) }); err != nil {
		descs <- prometheus.NewInvalidDesc(fmt.Errorf("describing the metrics of %T: %s", c.Collector, redact.Error(err)))
	}
}

// Collect sends the metrics of the collector. If it panics, Collect sends an
// error after the metrics that it has sent.
func (c guardedCollector) Collect(metrics chan<- prometheus.Metric) {
	if err := guard.Call(func() { c.Collector.Collect(metrics) }); err != nil {
		metrics <- prometheus.NewInvalidMetric(failedCollector,
			fmt.Errorf("collecting the metrics of %T: %s", c.Collector, redact.Error(err)))
	}
}

// unguarded returns the collector that the program has registered.
func unguarded(c prometheus.Collector) prometheus.Collector {
	if guarded, ok := c.(guardedCollector); ok {
		return guarded.Collector
	}
	return c
}
