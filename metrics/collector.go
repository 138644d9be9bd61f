package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Collector is a prometheus.Collector of controllers and of their queues,
// sweeps, slots, Leases and informers. It is safe for concurrent use.
type Collector struct {
	controllers []*reconcile.Controller
}

// New returns a collector of controllers. They must not be nil, must have
// different names, and need not run yet. Pass all controllers to one collector.
// If a registry has several collectors, controllers of different collectors must
// not share a name, a Lease or an informer, or have informers with the same
// name. Otherwise scrapes fail. Register the collector once:
//
//	registry.MustRegister(metrics.New(nodes, groups))
func New(controllers ...*reconcile.Controller) *Collector {
	return &Collector{controllers: controllers}
}

// Describe sends no descriptors, since the set of metrics depends on the
// informers and sweeps of the controllers. Registries then check for duplicates
// at each scrape.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current values. It reads the controllers' counters: it does
// not wait for reconciles or informers, and sends no request. It reads the
// counters one after the other while reconciles continue, so a sum may be
// slightly off.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	s := sender{metrics: metrics}
	for _, controller := range c.controllers {
		s.reconciles(controller)
		s.queue(controller.Name(), controller.QueueStats())
		s.sweep(controller.Name(), controller.Sweep())
	}
	s.leases(c.controllers)
	for _, informer := range inspect.Informers(c.controllers...) {
		s.informer(&informer)
	}
	s.problems(inspect.Problems(c.controllers...))
}

// Informers.
var (
	synced = describe("homeostat_informer_synced",
		"Whether the first list has been stored and delivered to handlers.", "informer", "kind")
	objects = describe("homeostat_informer_objects",
		"Objects in the cache.", "informer", "kind")
	references = describe("homeostat_informer_references",
		"Objects that other objects refer to and that the cache holds or waits for.", "informer", "kind")
	referenceWatches = describe("homeostat_informer_reference_watches",
		"Objects that other objects refer to and that are watched now.", "informer", "kind")
	bytes = describe("homeostat_informer_bytes",
		"Memory that the cached objects take, estimated from a few hundred of them.", "informer", "kind")
	watchAge = describe("homeostat_informer_watch_age_seconds",
		"Age of the watch that has been open for the longest time.", "informer", "kind")
	lag = describe("homeostat_informer_lag_seconds",
		"How long the oldest change has been waiting to be delivered to handlers.", "informer", "kind")
	silence = describe("homeostat_informer_watch_silence_seconds",
		"How long the least recently active watch has received neither an event nor a bookmark.", "informer", "kind")
	lists = describe("homeostat_informer_lists_total",
		"Lists that were stored. All but the first were relists.", "informer", "kind")
	watches = describe("homeostat_informer_watches_total",
		"Watches that were opened.", "informer", "kind")
	stalls = describe("homeostat_informer_watch_stalls_total",
		"Watches that were ended because they were silent.", "informer", "kind")
	restores = describe("homeostat_informer_restores_total",
		"How often the server's resourceVersions went back, as after a restore of its storage.", "informer", "kind")
	failures = describe("homeostat_informer_request_failures_total",
		"Lists and watches that failed.", "informer", "kind")
	handlerPanics = describe("homeostat_informer_handler_panics_total",
		"Panics of handlers. A handler misses the event that it panics on.", "informer", "kind")
	events = describe("homeostat_informer_events_total",
		"Changes that were delivered to handlers.", "informer", "kind")
)

// informer sends the state of one informer. It leaves out the age of the watch
// while no watch is open, and the silence until a watch has received data.
// While an optional informer has not synced, it also leaves out
// homeostat_informer_synced, because the value 0 would raise an alert.
func (s sender) informer(i *inspect.InformerStatus) {
	if i.Synced || !i.Optional {
		s.gauge(valueOf(i.Synced), synced, i.Name, i.Kind)
	}
	s.gauge(float64(i.Objects), objects, i.Name, i.Kind)
	if i.Referenced {
		s.gauge(float64(i.References), references, i.Name, i.Kind)
		s.gauge(float64(i.OpenWatches), referenceWatches, i.Name, i.Kind)
	}
	s.gauge(float64(i.Size()), bytes, i.Name, i.Kind)
	s.gauge(i.Lag.Seconds(), lag, i.Name, i.Kind)
	if !i.WatchSince.IsZero() {
		s.gauge(time.Since(i.WatchSince).Seconds(), watchAge, i.Name, i.Kind)
	}
	if !i.LastActivity.IsZero() {
		s.gauge(time.Since(i.LastActivity).Seconds(), silence, i.Name, i.Kind)
	}
	for m, n := range map[*prometheus.Desc]int64{
		lists: i.Lists, watches: i.Watches, stalls: i.Stalls, failures: i.Failures, events: i.Events,
		handlerPanics: i.Panics, restores: i.Restores,
	} {
		s.count(uint64(n), m, i.Name, i.Kind) //nolint:gosec // a count
	}
}
