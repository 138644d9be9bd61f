// Package children keeps what an owner owns: the objects that a controller makes
// for one of its own, and that the server deletes with it.
//
// An owner reference in the wrong place makes the garbage collector delete the
// child at once, or never. Children that are no longer wanted have to be deleted by hand, and
// a controller that decides that on a late cache deletes too much.
//
//	owner, wanted ──▶ Ensure ──▶ each wanted child: created, patched or left alone
//	                    │            │ all of them are there
//	cached children ────┘            ▼
//	  (by owner's UID)           the others ──▶ safety limit ──▶ is the owner as read? ──▶ deleted
//
// [Own] makes one object a child. A [Set] keeps all children of one kind.
//
// The contract:
//
//   - A reference that the garbage collector would punish is refused: of an owner
//     without UID, and of an owner in a namespace for a child that is in another one
//     or in none.
//   - A child that another owner controls is neither written nor deleted.
//   - Ensure sends no request when all children are as wanted and there are no
//     others.
//   - What is wrong with the arguments is a terminal error before any request.
//   - An owner that is being deleted gets no children.
//   - A wanted child that fails does not keep the others from being written.
//   - Nothing is deleted unless every wanted child is there and stays.
//   - Nothing is deleted if more than MaxCount children and more than MaxShare of them
//     would be: [ErrLimit] names the owner and the numbers.
//   - Before children are deleted or adopted, the server confirms that the owner is as
//     it was read, so that a late cache costs nothing.
//   - A child is deleted as it was cached, by its UID and resourceVersion.
//   - An object that no owner controls is left alone, unless it has the name of a
//     wanted child and the labels of [Options].Mark.
//
// A crash between two writes leaves some children to be made or deleted by the next
// reconcile. A child that the cache does not have yet is not deleted: its arrival is a
// reconcile of its own. A child of a deleted owner of the same name is in the way until
// the garbage collector has deleted it; until then Ensure returns an error.
//
// Only the owner is confirmed. Whoever derives children from other objects too, of
// which a cache may be late, should ask the server for those, see [names.Live].
//
// It does not set a status: [patch.Status] and meta.SetStatusCondition do. It does
// not watch: give the controller reconcile.Owned of the same informer.
//
// [names.Live]: https://pkg.go.dev/github.com/homeostat/homeostat/names#Live
package children
