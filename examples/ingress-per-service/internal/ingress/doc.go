// Package ingress gives every Service that opts in one Ingress, and deletes the
// Ingress again when the Service opts out:
//
//	controller, err := ingress.New(client, recorder, nil)
//
// Owner references alone would not delete the Ingress of a Service that opts
// out, and the Ingress of a recreated Service would be missing for a moment.
//
//	Services ──key──▶ reconcile: opted in?  ── yes ──▶ Ingress of the same key as it must be
//	Ingresses ─key──▶               └── no, gone ─▶ ask the server, then delete ours
//	known names: the Services for which there are Ingresses (at start and periodically)
//
// The contract:
//
//   - An Ingress without our marker is never modified, even if we need its
//     name. Then the Service gets one Warning event.
//   - An Ingress is created with a create. It is changed by server-side apply
//     of exactly the declared fields, under the resourceVersion and UID that
//     were read, and deleted under the same condition.
//   - No Ingress is deleted unless the server confirms that its Service does
//     not want it.
package ingress
