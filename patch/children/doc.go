// Package children manages owned objects: those that a controller creates for one
// of its own objects, and that the server deletes with it.
//
// An owner reference in the wrong place makes the garbage collector delete the child at once,
// or never. Children that are no longer wanted must be deleted explicitly, and a controller
// that decides that on a late cache deletes too much.
//
//	owner, wanted ──▶ Ensure ──▶ each wanted child: created, patched or left alone
//	                    │            │ all of them are there
//	cached children ────┘            ▼
//	  (by owner's UID)           the others ──▶ safety limit ──▶ is the owner as read? ──▶ deleted
//
// [Own] makes one object a child. A [Set] manages all children of one kind.
//
// The contract:
//
//   - An owner reference that the garbage collector would mishandle is refused: to an owner
//     without a UID, and to a namespaced owner from a child in a different namespace or in
//     none.
//   - A child that another owner controls is neither written nor deleted.
//   - Ensure sends no request when all children are as wanted and there are no
//     others.
//   - Wrong arguments are a terminal error before any request.
//   - An owner that is being deleted gets no children.
//   - A wanted child that fails does not stop the others from being written.
//   - Nothing is deleted unless every wanted child is there and stays.
//   - Nothing is deleted if more than MaxCount children and more than MaxShare of those
//     that were there before would be: [ErrLimit] names the owner and the numbers.
//   - A child whose edit changes an immutable field is an error that names the field, and
//     its other changes are written.
//   - At most MaxRecreate children in a call are deleted instead, to be created again.
//   - Before children are deleted or adopted, the server confirms that the owner is unchanged
//     since it was read, so that a late cache does no harm.
//   - A child is deleted only as it was cached, by its UID and resourceVersion.
//   - An object that no owner controls is left alone, unless it has the name of a
//     wanted child and the labels of [Options].Mark.
//
// After a crash between two writes, the next reconcile creates or deletes the remaining
// children. A child that the cache does not have yet is not deleted; its arrival triggers
// another reconcile. A child of a deleted owner with the same name is in the way until the
// garbage collector has deleted it; until then Ensure returns an error.
//
// Only the owner is confirmed. A reconciler that derives children from other objects too,
// whose caches may be late, should ask the server for those objects, see [names.Live].
//
// It does not set a status: [patch.Status] and meta.SetStatusCondition do. It does
// not watch: give the controller reconcile.Owned of the same informer.
//
// [names.Live]: https://pkg.go.dev/github.com/homeostat/homeostat/names#Live
package children
