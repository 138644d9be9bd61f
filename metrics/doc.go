// Package metrics shows Prometheus what controllers do:
//
//	registry := prometheus.NewRegistry()
//	registry.MustRegister(metrics.New(nodes, groups), metrics.Requests())
//
// Controllers count all the time, and metrics are computed only at a scrape.
// There is no global registry: register the collectors where you want them.
//
//	queue.Stats ─────┐
//	inspect.Stats ───┼─▶ Collector ◀── scrape ── prometheus.Registry (yours)
//	informer.Status ─┘                              │
//	client-go ─────────▶ Requests  ◀────────────────┘
//
// The contract:
//
//   - A metric that client-go or controller-runtime also has means the same as
//     there: workqueue_*, controller_runtime_*, rest_client_* and
//     leader_election_master_status. All other names begin with homeostat_.
//   - A conflict counts as an error and as a retry, as it does there.
//   - Labels are names of controllers, informers, kinds, lanes, slots,
//     outcomes, Leases, servers, checks and causes, never names or contents of
//     objects.
//
// The package does not serve metrics over HTTP; package status does. Give its
// collectors a registry of their own. In controller-runtime's registry, the
// same names with different help texts would fail every scrape.
package metrics
