// Package metrics shows Prometheus what controllers do.
//
// Controllers count all the time, at the price of an addition each; nothing is
// computed until somebody scrapes. There is no global registry: register the
// collector where you want it.
//
//	queue.Stats ─────┐
//	reconcile.Stats ─┼─▶ Collector ◀── scrape ── prometheus.Registry (yours)
//	informer.Status ─┘
//
// The contract:
//
//   - What means the same as in controller-runtime and client-go has the same
//     name there and here (controller_runtime_*, workqueue_*), so that dashboards
//     and alerts go on working. What only Homeostat has is named homeostat_*.
//   - Labels are names of controllers, informers, lanes and outcomes: never names
//     or contents of objects.
//   - A scrape takes no lock for longer than a snapshot of counters.
//
// It serves nothing over HTTP: package status does.
package metrics
