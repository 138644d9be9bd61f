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
//   - Answers equal the real server's in status, reason, body and events,
//     except for the differences that docs/simulated-server.md lists.
//   - Built-in kinds have the real server's defaults.
//   - A custom resource is defaulted, pruned and validated by its schema, if
//     its kind was given one. Without a schema, it is stored as it was sent.
//   - resourceVersion counts all writes that change an object, of all kinds.
//   - generation counts the changes of the spec.
//   - A write with an old resourceVersion or with another UID is a conflict.
//   - An object with finalizers is deleted when its last finalizer is removed.
//   - A watch delivers an object that leaves its selection as DELETED.
//   - All pages of a list show the state at its first page.
//   - A watch from a resourceVersion that was compacted gets 410.
//   - Without a [Scheduler] every call is served at once. With one, every call
//     waits until the scheduler releases it, except for discovery, the admin's
//     calls, and updates of a series of events.
//   - The same policy takes the same steps, so that two runs of a deterministic
//     program have the same trace.
//   - A [Fault] is injected before or after a call commits.
//   - [Server.Fence] kills one incarnation of a client: its later requests have
//     no effect.
//
// Calls do not block under a lock, and no goroutine outlives a call. A watch
// lives as long as its client reads it.
//
// # Files
//
//	requests   transport.go, call.go, dispatch.go, and a file for each verb, such as create.go and list.go
//	storage    table.go, object.go, event.go; its watches in watch.go and watcher.go
//	checks     validate.go, admission.go, quota.go, services.go; of the kinds in builtin.go and package rules
//	discovery  discovery.go, openapi.go
//	scheduler  scheduler.go, action.go, policy.go, run.go, fault.go
//	controller collector.go
//
// The scheduler shares the server's lock. Parked calls, and events that wait in
// watches, are its state as much as the server's, so the two are one package.
//
// # What it does not do
//
// Server-side apply records field owners from the first apply to an object on,
// unless Options.ManagedFields is set to track every write. Lists of custom
// resources without a schema are atomic. Disruption budgets, DaemonSets,
// Deployments and the like have no controllers here: only the [Collector] acts.
// Package reconciletest/actors has actors for Pods and Deployments.
//
// It answers in JSON, and [Server.Config] asks for JSON. Of the admission
// plugins, it has the namespace lifecycle, object quotas, priorities and
// tolerations of Pods, and the allocation of Services' addresses and ports. It
// has no conversion between versions. It validates metadata and immutable
// fields completely. Of the required fields and the allowed values, it checks
// the ones that programs get wrong most often (package rules). It has neither
// TLS nor authentication. docs/simulated-server.md lists the differences from
// the real server.
//
// client-go takes its jitter from the global math/rand. A test that compares
// traces sets GODEBUG=randseednop=0 and calls rand.Seed. client-go's reflector
// keeps the objects of a streaming list in a map, so that the order in which it
// delivers them is not reproducible.
package apisim
