// Package apisim is a simulated Kubernetes API server for tests:
//
//	sim, err := apisim.New(nil)
//	clientset, err := kubernetes.NewForConfig(sim.Config("controller"))
//
// Real clients and informers run against it, unmodified, in the virtual time of
// a testing/synctest bubble. A scheduler decides the order of all actions and
// injects faults.
//
//	clientset, dynamic, metadata clients, informers
//	       │ rest.Config.Transport (an http.RoundTripper: no sockets, no goroutines)
//	       ▼
//	   gate: the call parks ◀── Scheduler.Step(action, fault) ◀── Policy (Benign, Random, a test's own)
//	       ▼
//	   Server: tables, one resourceVersion, history ──▶ OnCommit hooks (invariants after every write)
//	       │   (package rules: defaults, required and immutable fields of the built-in kinds)
//	       ▼
//	   watches: each event waits for its delivery by the Scheduler
//
// # Contract
//
//   - Answers equal the real server's answers in status, reason, body and
//     events. The conformance test makes one table of calls to both.
//   - Built-in kinds have the real server's defaults; a table compares them. A
//     custom resource is defaulted, pruned and validated by its schema, if its
//     kind was given one (package reconciletest/crd).
//   - resourceVersion counts all writes that change an object. generation,
//     uid, creationTimestamp, conflicts, preconditions, finalizers, two-phase
//     deletion, the separation of status, selectors (an object that leaves the
//     selection is DELETED), limit and continue, streaming lists, bookmarks
//     and 410 work.
//   - Without a [Scheduler] every call is served at once. With one, every call
//     except the admin's parks. The same policy takes the same steps, so that
//     two runs of a deterministic program have the same trace.
//   - A [Fault] is injected before or after a call commits. [Server.Fence]
//     kills one incarnation of a client: its later requests have no effect.
//   - Calls do not block under a lock, and no goroutine outlives a call. A
//     watch lives as long as its client reads it.
//
// # What it does not do
//
// Server-side apply records field owners from the first apply to an object on,
// unless Options.ManagedFields is set to track every write. Lists of custom
// resources without a schema are atomic. Disruption budgets, DaemonSets,
// Deployments and the like have no controllers here: only the [Collector] acts.
// Package reconciletest/actors has actors for Pods and Deployments.
//
// It answers in JSON, and [Server.Config] asks for JSON. It has no admission
// except for namespace lifecycle and object quotas, and no conversion between
// versions. It validates metadata, immutable fields, and the required fields
// that are forgotten most often. It has neither TLS nor authentication.
// docs/simulated-server.md lists the differences from the real server.
//
// client-go takes its jitter from the global math/rand. A test that compares
// traces sets GODEBUG=randseednop=0 and calls rand.Seed. client-go's reflector
// keeps the objects of a streaming list in a map, so that the order in which it
// delivers them is not reproducible.
package apisim
