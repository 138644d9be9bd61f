package operator

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/redact"
)

// failedCollector is the description of the metric that stands for a collector
// that has failed. It is never served.
var failedCollector = prometheus.NewDesc("failed_collector", "A collector has failed.", nil, nil)

// collectTimeout is how long a scrape waits for a collector of the program. It
// is less than the ten seconds that Prometheus by default waits for the scrape.
const collectTimeout = 5 * time.Second

var errCollectTimeout = fmt.Errorf("the collector has not returned after %v", collectTimeout)

// guardedCollector is a collector of the program. If it panics, or does not
// return in time, only its own metrics are missing. A registry calls collectors
// in goroutines of its own, so a panic would end the process, and
// runtime.Goexit would block every scrape.
type guardedCollector struct {
	prometheus.Collector
	overdue atomic.Int32 // calls that have not returned in time
}

// Describe sends the descriptions of the collector. If it panics, the collector
// is not registered, and the error says so.
func (c *guardedCollector) Describe(descs chan<- *prometheus.Desc) {
	if err := guard.Call(func() { c.Collector.Describe(descs) }); err != nil {
		descs <- prometheus.NewInvalidDesc(fmt.Errorf("describing the metrics of %T: %s", c.Collector, redact.Error(err)))
	}
}

// Collect sends the metrics of the collector. If the collector panics or is
// late, Collect sends an error after the metrics that the collector has sent.
// While a call is late, the collector is not called again.
func (c *guardedCollector) Collect(metrics chan<- prometheus.Metric) {
	if err := c.collect(metrics); err != nil {
		metrics <- prometheus.NewInvalidMetric(failedCollector,
			fmt.Errorf("collecting the metrics of %T: %s", c.Collector, redact.Error(err)))
	}
}

func (c *guardedCollector) collect(metrics chan<- prometheus.Metric) error {
	if c.overdue.Load() > 0 {
		return errCollectTimeout
	}
	sent, ended := make(chan prometheus.Metric), make(chan error, 1)
	go func() {
		ended <- guard.Call(func() { c.Collector.Collect(sent) })
		close(sent)
	}()
	timer := time.NewTimer(collectTimeout)
	defer timer.Stop()
	for {
		select {
		case m, ok := <-sent:
			if !ok {
				return <-ended
			}
			metrics <- m
		case <-timer.C:
			c.overdue.Add(1)
			go func() { // what it sends later must not block it: the registry closes metrics
				for range sent {
				}
				c.overdue.Add(-1)
			}()
			return errCollectTimeout
		}
	}
}

// unwrap returns the collector that the program has registered.
func unwrap(c prometheus.Collector) prometheus.Collector {
	if guarded, ok := c.(*guardedCollector); ok {
		return guarded.Collector
	}
	return c
}
