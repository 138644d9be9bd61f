// Package status shows over HTTP what controllers are doing: to the kubelet, to
// Prometheus, and to people who wonder why a change has no effect:
//
//	handler, err := status.New(&status.Options{Controllers: controllers, Authorize: status.Reviewed(clientset)})
//	...
//	err = status.Serve(ctx, ":8080", handler)
//
// The paths:
//
//	                         ┌─▶ /livez    does only a restart help?
//	Controller ─┐            ├─▶ /readyz   is every cache filled, and who leads?
//	 informers  ├─▶ Handler ─┤
//	 queue      ┘            ├─▶ /metrics          ┐
//	                         ├─▶ /debug/homeostat  ├ behind Options.Authorize
//	                         └─▶ /debug/pprof/     ┘ with Options.Profiles
//
// The contract:
//
//   - Probes do not wait for work: they read what is already known, and give
//     checks that call other code half a second. /readyz?verbose names every
//     check. A failing check is always named, with its reason.
//   - A standby is ready. A controller is not ready if it has not been run, if
//     its caches are incomplete or if the writes of nearly all its keys have
//     been refused for a minute. A failing sweep is named, and leaves the
//     process ready: Options.Readiness may be stricter.
//   - A problem of one member (an object, a namespace, a cluster) is named with
//     [!], and leaves the process ready.
//   - /debug/homeostat is one HTML document that needs no scripts and no
//     external resources, and refreshes itself. Each key on it links to its own
//     page, with its last reconciles: causes, writes, when they were seen,
//     outcome.
//   - ?format=json is the same for programs, ?keys=N shows more keys, and
//     ?refresh=SECONDS sets the pace, 0 none.
//   - Only the name, kind and versions of an object are shown. Errors of
//     reconcilers are cut to their first line. Values that the API server
//     quotes from an invalid object are left out. Everything is escaped.
//   - Authorize guards everything except the probes. Without it there are no
//     profiles. With [Reviewed] only a token counts, not the origin of a
//     request.
//   - [Serve] listens on the given address, and nowhere if it is empty.
//   - With ReadyWithoutCaches, caches that are not filled are named, and leave
//     the process ready.
//   - Informers that no controller here uses are shown and checked like the
//     controllers' informers.
//   - Every request is a GET, or a HEAD, which is answered with the same
//     status.
//
// # Probes
//
// Point livenessProbe at /livez and readinessProbe at /readyz, with the
// kubelet's default timeout of a second. Only conditions that a restart can fix
// fail /livez: work that continues long after its leadership ended; a request
// for the Lease that never returned; an API server that has answered 401 for
// five minutes to a watch that worked before; workers that are all held by
// calls that ignore their context; and a failing check in Options.Liveness.
//
// To fail readiness because of an outside system, use Options.Readiness. It
// then fails for every replica at once.
//
// # Access
//
// Without Options.Authorize, every client that can connect can read names of
// objects, errors and metrics. Where the port is open to others, as it must be
// for the kubelet, use [Reviewed], as above. The program then needs the
// ClusterRole system:auth-delegator. Prometheus needs a ClusterRole that allows
// the verb "get" on the nonResourceURL /metrics, and people need one for
// /debug/homeostat.
//
// # JSON
//
// Times are RFC 3339, durations are seconds, counts are since the start of the
// process. A field that does not apply is left out or null. Fields whose names
// do not explain them:
//
//	problems[]                the failures that /readyz names, mild if the process is ready nevertheless
//	controllers[].phase       created, syncing, standby, working, stopping or stopped
//	    .leader, .slots       the leader, or why no replica leads; the owner of each shard's slot
//	    .triggers[].type      primary, owned, mapped or external
//	    .reconciles           counts by outcome: success, requeue_after, conflict, error, terminal
//	    .workers, .active     how many reconciles can run, and how many are running
//	    .failing              keys whose last reconcile failed, up to 1000
//	    .retrying             keys in the queue that have failed and not succeeded since
//	    .backingOff           delayed keys that wait for the end of their back-off
//	    .heldBack             reconciles after which the key waited for the caches to see its writes
//	    .overdue              reconciles that began before the caches had seen them, at the deadline
//	    .hotLoops             reconciles with a write that made no progress: changes of its object wait
//	    .outputs[].watched    whether a trigger of the controller would notice another client's change
//	    .lanes[].oldest…      for how long the next key of the lane has waited
//	    .sweep.problem        why the last sweep was refused or failed
//	    .keys[], .more        held, delayed, waiting, standby and resting keys, and whether there are more
//	controllers[].keys[].state    resting: its last reconcile gave up, and the key waits for a change;
//	                          standby: the key waits until this replica leads
//	    .attempt              1, and one more for each failure in a row
//	    .since, .next         when it began to wait or was dispatched; when its delay ends
//	    .onHold               delayed until the caches have seen its writes
//	    .again                held, and added again since
//	    .causes[].merged      further changes of the same object that the cause stands for
//	informers[].reason        why it has not synced
//	    .version              the last resourceVersion that it has seen
//	    .bytes                estimated memory of its objects
//	    .lastActivity         when the least recently active watch last received an event
//	    .lagSeconds           for how long the oldest change has waited to be delivered
//	    .lists, .watches      counts of begun requests; more than one list for each start is a relist
//	    .stalls, .failures    watches ended because they were silent; requests that failed
//	    .restores             how often the server's resourceVersions went back
//	    .lastError            error of the last failed request, until a request succeeds
//
// The page of one key, ?controller=NAME&key=NAMESPACE/NAME, has the key's state
// in the queue (now) and its last reconciles (attempts), the newest first. Each
// attempt has its causes, its first 10 writes and the number of further writes,
// when the caches had seen them (seen), and the outcome.
//
// The package does not serve TLS.
package status
