// Package ingress creates an Ingress for every Service that opts in, and
// deletes the Ingress when the Service opts out:
//
//	controller, err := ingress.New(client, recorder, nil)
//
// Owner references alone would not delete the Ingress of a Service that opts
// out, and the Ingress of a recreated Service would be missing for a moment.
//
//	Services ──key──▶ reconcile: opted in?  ── yes ──▶ Ingress of the same key as it must be
//	Ingresses ─key──▶               └── no, deleted ─▶ ask the server, then delete ours
//	known names: the Services for which there are Ingresses (at start and periodically)
//
// The contract:
//
//   - An Ingress without our marker is never modified, even if we need its
//     name. In that case the Service gets one Warning event.
//   - An Ingress is created with a create, not with server-side apply. It is
//     changed by server-side apply of exactly the declared fields. A change or
//     a deletion fails if the resourceVersion or the UID is no longer the one
//     that was read.
//   - No Ingress is deleted unless the server confirms that its Service does
//     not want it.
package ingress
