// Package apisim is a simulated Kubernetes API server for tests: real clients and informers run against it,
// unmodified, in the virtual time of a testing/synctest bubble, and a scheduler decides in which order everything
// happens and what goes wrong.
//
//	clientset, dynamic, metadata clients, informers
//	       │ rest.Config.Transport (an http.RoundTripper: no sockets, no goroutines)
//	       ▼
//	   gate: the call parks ◀── Scheduler.Step(action, fault) ◀── Policy (Benign, Random, a test's own)
//	       ▼
//	   Server: tables, one resourceVersion, history ──▶ OnCommit hooks (invariants after every write)
//	       ▼
//	   watches: each event waits for its delivery by the Scheduler
//
// # Contract
//
//   - Answers are those of the real server: status, reason, body and events. One table of calls compares both (see the
//     conformance test).
//   - Built-in kinds have the real server's defaults, which a table compares with it. A custom resource has those of
//     its schema, which also prunes and validates it, if its kind was given one (package reconciletest/crd).
//   - resourceVersion counts all writes that change something. generation, uid, creationTimestamp,
//     conflicts, preconditions, finalizers, two-phase delete, the split of status, selectors (leaving one is DELETED),
//     limit and continue, streaming lists, bookmarks and 410 work.
//   - Without a [Scheduler] every call is served at once. With one, every call except the admin's parks, and the same
//     policy takes the same steps: the trace of two runs is the same, as far as the program is deterministic.
//   - A [Fault] strikes a call before or after its commit; [Server.Fence] kills one incarnation of a client:
//     requests that it sends later have no effect.
//   - Nothing blocks under a lock, and no goroutine outlives a call; a watch lives as long as its client reads it.
//
// # What it does not do
//
// Server-side apply records field owners from the first apply to an object on, unless Options.ManagedFields has
// every write tracked; lists of custom resources without a schema are atomic. Disruption budgets, DaemonSets,
// Deployments and the like have no controllers here: only the [Collector] acts. Package reconciletest/actors has
// actors for Pods and Deployments.
//
// It answers in JSON, and [Server.Config] asks for that. It has no admission except namespace lifecycle and quotas of
// objects, and no conversion between versions. It validates metadata, immutable fields and the required
// fields that are forgotten most. TLS and authentication are absent. docs/simulated-server.md lists the differences
// from the real server.
//
// client-go takes its jitter from the global math/rand: a test that compares traces sets GODEBUG=randseednop=0 and
// calls rand.Seed. Its reflector keeps the objects of a streaming list in a map: the order in which it delivers them
// is not reproducible.
package apisim
