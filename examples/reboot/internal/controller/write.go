package controller

import (
	"context"
	"slices"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/patch"
)

// finalizer keeps a group, and thus its ledger, until it has no slots.
const finalizer = "reboot.homeostat.dev/ledger"

// patchStatus edits the status of a group. It fails if the group has changed
// since it was read.
func (w *world) patchStatus(
	ctx context.Context, group *api.RebootGroup, edit func(*api.RebootGroupStatus),
) error {
	_, err := patch.Merge(ctx, patch.ClusterScoped(w.groups), group, &patch.Options{Lock: true, Subresource: "status"},
		func(g *api.RebootGroup) { edit(&g.Status) })
	return err
}

// guard adds the finalizer to a group, so that its ledger exists until no slot
// is held.
func (w *world) guard(ctx context.Context, group *api.RebootGroup) error {
	_, err := patch.Merge(ctx, patch.ClusterScoped(w.groups), group, &patch.Options{Lock: true},
		func(g *api.RebootGroup) { g.Finalizers = append(g.Finalizers, finalizer) })
	return err
}

// removeFinalizer removes the finalizer from a group that is being deleted,
// unless the group still has slots.
func (w *world) removeFinalizer(ctx context.Context, group *api.RebootGroup) error {
	if len(group.Status.Slots) > 0 || !slices.Contains(group.Finalizers, finalizer) {
		return nil
	}
	_, err := patch.Merge(ctx, patch.ClusterScoped(w.groups), group, &patch.Options{Lock: true},
		func(g *api.RebootGroup) {
			g.Finalizers = slices.DeleteFunc(g.Finalizers, func(f string) bool { return f == finalizer })
		})
	return err
}
