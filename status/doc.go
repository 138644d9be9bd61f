// Package status shows over HTTP what controllers are doing: to the kubelet, to
// Prometheus, and to people who wonder why nothing happens.
//
//	                         ┌─▶ /livez    does only a restart help?
//	Controller ─┐            ├─▶ /readyz   is every cache there, and who leads?
//	 informers  ├─▶ Handler ─┤
//	 queue      ┘            ├─▶ /metrics          ┐
//	                         ├─▶ /debug/homeostat  ├ behind Options.Authorize
//	                         └─▶ /debug/pprof/     ┘ with Options.Profiles
//
// The contract:
//
//   - Probes do not wait for work: they read what is known, and give checks that
//     call other code half a second. /readyz?verbose names every check. A check
//     that fails is named, with its reason, in any case.
//   - A standby is ready. A controller that has not been run, whose caches are
//     not complete or whose every write has been refused for a minute is not. A
//     sweep that fails is named, and leaves the process ready: Options.Ready may
//     ask for more.
//   - /debug/homeostat is one HTML document that needs neither scripts nor
//     anything from elsewhere, and refreshes itself. Each key on it leads to its
//     own page, with its last reconciles: causes, writes, when they were seen, outcome.
//   - ?format=json is the same for programs, ?keys=N shows more keys, and
//     ?refresh=SECONDS sets the pace, 0 none.
//   - Nothing of an object but its name, kind and versions is shown. Errors of
//     reconcilers are cut to their first line. Values that the API server quotes
//     from an invalid object are left out. All of it is escaped.
//   - Authorize guards all but the probes. Without it there are no profiles.
//     With [Reviewed] only a token counts, not where a request comes from.
//   - [Serve] listens where it is told, and nowhere if the address is empty.
//   - Every request is a GET.
//
// # Probes
//
// Point livenessProbe at /livez and readinessProbe at /readyz, with the kubelet's default timeout of a second. Only
// what a restart can cure fails /livez: work that goes on long after its leadership ended, a request for the Lease that
// never returned, and the checks in Options.Live. A caller that wants to fail readiness for an outside system does so
// in Options.Ready, and then for every replica at once.
//
// # Access
//
// Without Options.Authorize, all who can connect can read names of objects, errors and metrics. Where the port is open
// to others, as it is for the kubelet, use [Reviewed]:
//
//	handler, err := status.New(&status.Options{Controllers: controllers, Authorize: status.Reviewed(clientset)})
//	...
//	err = status.Serve(ctx, ":8080", handler)
//
// Prometheus then needs a ClusterRole that allows the verb "get" on the nonResourceURL /metrics, and people one on
// /debug/homeostat. The program needs the ClusterRole system:auth-delegator.
//
// # JSON
//
// Times are RFC 3339, durations are seconds, counts are since the start of the process. A field that does not apply is
// left out or null.
//
// It does not serve TLS.
package status
