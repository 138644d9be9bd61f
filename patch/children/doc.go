// Package children manages owned objects, which a controller creates for one of
// its own objects, and which are deleted with it:
//
//	copies := children.New(kind, mirrors.In, secrets, clientset.CoreV1().Secrets,
//		&children.Options{ByLabel: true})
//	all, err := copies.Ensure(ctx, mirror, wanted...)
//
// Doing this by hand has two traps. An owner reference in the wrong place makes
// the garbage collector delete the child at once, or never. And children that
// are no longer wanted must be deleted explicitly. A controller that bases this
// decision on a late cache may delete too much.
//
//	owner, wanted ──▶ Ensure ──▶ each wanted child: created, patched or left alone
//	                    │            │ all of them are there
//	cached children ────┘            ▼
//	  (by owner's UID)           the others ──▶ safety limit ──▶ is the owner as read? ──▶ deleted
//
// [Own] makes one object a child. A [Set] manages all children of one kind.
// They are connected with their owner by an owner reference or, with
// [Options].ByLabel, by a mark: the labels homeostat.dev/owner-kind, -name and
// -uid, and annotations with the owner's whole name and the child's own name.
// Only a mark reaches other namespaces, and only references are cleaned up by
// the garbage collector: with a mark, [Set.DeleteOrphans] does that.
//
// The contract:
//
//   - An owner reference that the garbage collector would mishandle is refused:
//     to an owner without a UID, and to a namespaced owner from a child in a
//     different namespace or in none.
//   - With a mark, a child may be in another namespace than its owner, and a
//     namespaced owner may have cluster-scoped children.
//   - A child that another owner controls is neither written nor deleted.
//   - A mark makes an object a child only of the owner whose UID it contains.
//   - With [Options].Origin, the children of owners of other clusters are
//     neither adopted nor deleted. Owners whose API server has another address
//     than their children's are refused without it.
//   - A copy of a marked child that another client has made is not deleted. It
//     becomes a child only if it has the name of a wanted one.
//   - Ensure sends no request when all children are as wanted and there are no
//     others.
//   - Wrong arguments are a terminal error before any request.
//   - An owner that is being deleted gets no children.
//   - A wanted child that fails does not stop the others from being written.
//   - Nothing is deleted in a namespace unless every wanted child there exists
//     and stays.
//   - Nothing is deleted if more than MaxCount children and more than MaxShare
//     of those that were there before would be: [ErrLimit] names the owner and
//     the numbers.
//   - The limit does not apply after a change of the owner's spec that the Set
//     has seen, and to deletions that [ConfirmAnnotation] confirms.
//   - If an edit changes an immutable field of a child, the error names the
//     field, and the child's other changes are written.
//   - Instead, up to MaxRecreate such children in a call are deleted, and
//     created again later.
//   - A child that comes back without the wanted values is not deleted again
//     for them.
//   - Before children are deleted or adopted, the server confirms that the
//     owner is unchanged since it was read, so that a late cache does no harm.
//   - A child is deleted only as it was cached, by its UID and resourceVersion.
//   - An object without an owner is left alone, unless it has the name of a
//     wanted child and the labels of [Options].Mark, or [Options].Adopt takes
//     it.
//   - Children that a deleted owner has left behind, by label, are deleted once
//     the server says that no owner has that UID. A recreated owner adopts or
//     deletes them.
//
// After a crash between two writes, the next reconcile creates or deletes the
// remaining children. A child that the cache does not have yet is not deleted;
// when the cache receives it, the owner is reconciled again. A child may still
// have an owner reference to a deleted owner with the same name. Ensure returns
// an error for it until the garbage collector has deleted that child.
//
// The safety limit is for accidents. For example, the wanted children may be
// computed from a listing that is empty by mistake. A change of the owner's
// spec, in contrast, counts as intended: its generation has grown, and its
// member spec differs. If the kind has no spec, all members except metadata and
// status are compared. A program that writes its own state to such a member
// lifts the limit by it; for example, a kind with the members rules and result
// should have a spec for the rules. After a restart it is not known whether the
// spec has changed, so the limit applies. It always applies to owners of which
// only the metadata is read, and to owners whose changes the server does not
// count in a generation, such as ConfigMaps, Secrets, Services and Namespaces.
//
// Only the owner is confirmed. A reconciler that derives children from other
// objects too, whose caches may be late, should read these objects from the
// server; see [names.Live].
//
// The package does not set a status; [patch.Status] and meta.SetStatusCondition
// do. It does not watch the children: give the controller reconcile.Owned of
// the same informer.
//
// [names.Live]: https://pkg.go.dev/github.com/homeostat/homeostat/names#Live
package children
