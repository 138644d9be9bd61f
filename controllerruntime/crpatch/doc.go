// Package crpatch makes a client of controller-runtime usable with packages
// patch and children, in reconcilers that stay on controller-runtime.
//
//	pods := crpatch.Of[corev1.Pod](mgr.GetClient(), mgr.GetAPIReader())
//	_, err := patch.Merge(ctx, pods, pod, nil, edit)
//
//	patch.Merge ──the difference──▶ crpatch.Client ──Patch──▶ the manager's client
//
// The contract:
//
//   - Only the differences are sent, and no request is sent without a
//     difference.
//   - A recreated object is not written to.
//   - A dry run remains a dry run.
//   - If the cache was wrong, the API server is asked.
//   - It works with controller-runtime's fake client.
//
// A reconciler returns a refused write, patch.IsStale, as its error: it is
// called again when the cache is newer. Unstructured kinds have patch.Dynamic
// instead.
package crpatch
