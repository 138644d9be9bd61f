// Package ingress gives every Service that opts in one Ingress, and takes it
// away again.
//
// A Service says that it wants to be reached from outside; something has to write
// the Ingress, keep it so, and remove it. Owner references alone would miss the
// Service that opts out, and a replaced one would lose its Ingress for a moment.
//
//		Services ──key──▶ reconcile: opted in?  ── yes ──▶ Ingress of the same key as it must be
//		Ingresses ─key──▶               └── no, gone ─▶ ask the server, then delete ours
//		known names: the Services for which there are Ingresses (at start and periodically)
//
//	  - An Ingress without our marker is never touched, even where we need its
//	    name: the Service gets a Warning event, once.
//	  - An Ingress is created by a create, changed by server-side apply of exactly
//	    what we declare under the resourceVersion and UID that were looked at, and
//	    deleted under the same condition.
//	  - Nothing is deleted on the word of a cache alone.
package ingress
