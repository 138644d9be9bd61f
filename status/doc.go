// Package status shows over HTTP what controllers are doing: to the kubelet, to
// Prometheus, and to people who wonder why nothing happens.
//
//	                         ┌─▶ /livez    does only a restart help?
//	Controller ─┐            ├─▶ /readyz   is every cache there, and who leads?
//	 informers  ├─▶ Handler ─┤
//	 queue      ┘            ├─▶ /metrics          ┐ behind
//	                         └─▶ /debug/homeostat  ┘ Options.Authorize
//
// The contract:
//
//   - Probes never wait for work: they read what is known, and give checks that
//     ask others a fraction of a second. /readyz?verbose names every check; a
//     check that fails is named, with its reason, in any case.
//   - A standby is ready. A controller that has not been run, whose caches are
//     not complete or whose sweep fails is not.
//   - The page is one HTML document that needs neither scripts nor anything from
//     elsewhere, and refreshes itself. /debug/homeostat?format=json is the same
//     for programs; ?keys=N shows more keys, ?refresh=SECONDS is the pace, 0 none.
//   - Nothing of an object but its name, kind and versions is shown. Errors of
//     reconcilers are cut to their first line; values that the API server quotes
//     from an invalid object are left out.
//   - [Serve] listens on loopback unless told otherwise.
//
// It does not authenticate anybody by itself, does not serve TLS, and changes
// nothing: every request is a GET.
package status
