package metrics

import (
	"time"

	"github.com/homeostat/homeostat/reconcile/inspect"
)

var (
	synced = named("homeostat_informer_synced",
		"Whether the first list has been stored and handed on.", "informer", "kind")
	objects = named("homeostat_informer_objects",
		"Objects in the cache.", "informer", "kind")
	bytes = named("homeostat_informer_bytes",
		"Memory that the cached objects take, estimated from a few hundred of them.", "informer", "kind")
	watchAge = named("homeostat_informer_watch_age_seconds",
		"For how long the watch has been open that is open longest.", "informer", "kind")
	lag = named("homeostat_informer_lag_seconds",
		"How long the oldest change has been waiting to be handed on.", "informer", "kind")
	silence = named("homeostat_informer_watch_silence_seconds",
		"Since when the watch that is silent longest has brought neither event nor bookmark.", "informer", "kind")
	lists = named("homeostat_informer_lists_total",
		"Lists that were stored: all but the first were relists.", "informer", "kind")
	watches = named("homeostat_informer_watches_total",
		"Watches that were opened.", "informer", "kind")
	stalls = named("homeostat_informer_watch_stalls_total",
		"Watches that were ended because nothing came.", "informer", "kind")
	failures = named("homeostat_informer_request_failures_total",
		"Lists and watches that failed.", "informer", "kind")
	handlerPanics = named("homeostat_informer_handler_panics_total",
		"Panics of handlers, each of which missed that event.", "informer", "kind")
	events = named("homeostat_informer_events_total",
		"Changes that were handed on.", "informer", "kind")
)

func (s sender) informer(i *inspect.InformerStatus) {
	s.gauge(truth(i.Synced), synced, i.Name, i.Kind)
	s.gauge(float64(i.Objects), objects, i.Name, i.Kind)
	s.gauge(float64(i.Size()), bytes, i.Name, i.Kind)
	s.gauge(i.Lag.Seconds(), lag, i.Name, i.Kind)
	if !i.WatchSince.IsZero() {
		s.gauge(time.Since(i.WatchSince).Seconds(), watchAge, i.Name, i.Kind)
	}
	if !i.LastActivity.IsZero() {
		s.gauge(time.Since(i.LastActivity).Seconds(), silence, i.Name, i.Kind)
	}
	for m, n := range map[metric]int64{
		lists: i.Lists, watches: i.Watches, stalls: i.Stalls, failures: i.Failures, events: i.Events,
		handlerPanics: i.Panics,
	} {
		s.count(uint64(n), m, i.Name, i.Kind) //nolint:gosec // a count
	}
}
