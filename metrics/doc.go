// Package metrics shows Prometheus what controllers do.
//
// Controllers count all the time, and nothing is computed before a scrape. There
// is no global registry: register the collectors where you want them.
//
//	queue.Stats ─────┐
//	inspect.Stats ───┼─▶ Collector ◀── scrape ── prometheus.Registry (yours)
//	informer.Status ─┘                              │
//	client-go ─────────▶ Requests  ◀────────────────┘
//
// The contract:
//
//   - A name that client-go or controller-runtime has, too, means here what it
//     means there: workqueue_*, controller_runtime_*, rest_client_* and
//     leader_election_master_status. All other names begin with homeostat_.
//   - A conflict counts as an error and as a retry, as it does there.
//   - Labels are names of controllers, informers, kinds, lanes, slots, outcomes,
//     Leases and servers, never names or contents of objects.
//
// It serves nothing over HTTP: package status does. Give it a registry of its own:
// in controller-runtime's, the same names with another help fail every scrape.
package metrics
