package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// A Collector is a prometheus.Collector of controllers, their queues and their
// informers. It is safe for concurrent use.
type Collector struct {
	controllers []*reconcile.Controller
}

// New returns a collector of these controllers, to be registered once:
//
//	registry.MustRegister(metrics.New(nodes, groups))
func New(controllers ...*reconcile.Controller) *Collector {
	return &Collector{controllers: controllers}
}

// Describe sends nothing: what there is depends on the informers and sweeps of
// the controllers. Registries then check for duplicates at the scrape.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the values of now.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := sender{out: out}
	for _, controller := range c.controllers {
		s.reconciles(controller)
		s.queue(controller.Name(), controller.QueueStats())
		s.sweep(controller.Name(), controller.Sweep())
	}
	s.leases(c.controllers)
	for _, informer := range inspect.Informers(c.controllers...) {
		s.informer(&informer)
	}
}

// A sender makes constant metrics of one scrape.
type sender struct {
	out chan<- prometheus.Metric
}

func (s sender) send(kind prometheus.ValueType, value float64, m metric, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(m.desc, kind, value, labels...)
}

func (s sender) count(value uint64, m metric, labels ...string) {
	s.send(prometheus.CounterValue, float64(value), m, labels...)
}

func (s sender) gauge(value float64, m metric, labels ...string) {
	s.send(prometheus.GaugeValue, value, m, labels...)
}

// truth is 1 or 0.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s sender) histogram(count uint64, sum float64, buckets map[float64]uint64, m metric, labels ...string) {
	s.out <- prometheus.MustNewConstHistogram(m.desc, count, sum, buckets, labels...)
}

// A metric is a name with its help and labels.
type metric struct{ desc *prometheus.Desc }

func named(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil)}
}
