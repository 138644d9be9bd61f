package children

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/mark"
	"github.com/homeostat/homeostat/internal/terminal"
)

// DeleteOrphans deletes the children that deleted owners with this name have
// left, with [Options].ByLabel. Call it where the object of a key is not found:
//
//	mirror, ok := r.Object()
//	if !ok {
//		return reconcile.Result{}, copies.DeleteOrphans(ctx, r.Key)
//	}
//
// reconcile.Owned adds the keys of the owners of all cached children, including
// owners that were deleted without a finalizer, or while the program was down.
//
// A child is deleted only if the server confirms that there is no owner with
// that name, or that the owner has another UID than the child's mark. In that
// case Ensure of the new owner adopts or deletes the child, too.
//
// DeleteOrphans sends no request if the cache has no such child. Otherwise it
// sends one to read the owner and one for each deletion. Errors: the errors of
// the requests, and of the arguments of New, which are terminal.
func (s *Set[T]) DeleteOrphans(ctx context.Context, owner types.NamespacedName) error {
	if s.err != nil {
		return terminal.Mark(fmt.Errorf("deleting what %s %q has left: %w", s.kind.Kind, owner, s.err))
	}
	if err := s.deleteOrphans(ctx, owner); err != nil {
		return fmt.Errorf("deleting what %s %q has left: %w", s.kind.Kind, owner, err)
	}
	return nil
}

func (s *Set[T]) deleteOrphans(ctx context.Context, owner types.NamespacedName) error {
	var candidates []T
	for child := range s.byOwner.Get(markOf(s.kind, owner, "").ID()) {
		if child.GetDeletionTimestamp() == nil {
			candidates = append(candidates, child)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	read, err := s.reader(owner)
	if err != nil {
		return terminal.Mark(err)
	}
	alive := types.UID("")
	switch live, err := read(ctx); {
	case s.absent(err, owner):
	case err != nil:
		return fmt.Errorf("checking whether it is deleted: %w", err)
	default:
		alive = live.GetUID()
	}
	var orphans []T
	for _, child := range candidates {
		if of, ok := mark.Of(child); ok && of.UID != alive {
			orphans = append(orphans, child)
		}
	}
	return s.deleteAll(ctx, orphans)
}

// DeleteAll deletes all children of an owner that is being deleted. It is for
// the Clean of a [patch.Finalizer]:
//
//	finalizer.Clean = func(ctx context.Context, m *v1.Mirror) error { return copies.DeleteAll(ctx, m) }
//
// Use it if the owner must stay until its children are deleted; otherwise
// [Set.DeleteOrphans] is enough. It returns when the server has accepted the
// deletions.
//
// DeleteAll first waits until the cache is as new as the server, so that it
// misses no child. It sends the requests of [informer.Informer.WaitForLatest]
// and one for each child.
//
// Errors: the errors of the requests; a cache that is not complete because a
// namespace cannot be listed. Terminal errors are an owner that is nil, has no
// UID, or is not being deleted.
func (s *Set[T]) DeleteAll(ctx context.Context, owner metav1.Object) error {
	if bound.IsNil(owner) {
		return terminal.Mark(fmt.Errorf("deleting the children of a %s: the owner is nil", s.kind.Kind))
	}
	c, err := s.begin(ctx, owner)
	if err == nil {
		err = c.mayOwn(owner.GetNamespace())
	}
	if err == nil && owner.GetDeletionTimestamp() == nil {
		err = errors.New("it is not being deleted")
	}
	if err != nil {
		return terminal.Mark(fmt.Errorf("deleting the children of %s: %w", nameOf(owner, s.kind), err))
	}
	if err := c.deleteMine(ctx); err != nil {
		return fmt.Errorf("deleting the children of %s: %w", nameOf(owner, s.kind), err)
	}
	return nil
}

// deleteMine deletes the children with the owner's UID. Children with only the
// owner's name may belong to an owner that was created since.
func (c *call[T]) deleteMine(ctx context.Context) error {
	if !c.in.HasSynced() {
		return fmt.Errorf("the cache of %s is not complete", c.in.Name())
	}
	if err := c.in.WaitForLatest(ctx); err != nil {
		return err
	}
	var all []T
	for _, child := range c.children() {
		if c.relationOf(child) == mine {
			all = append(all, child)
		}
	}
	c.mu.Lock()
	delete(c.notes, c.owner.GetUID())
	c.mu.Unlock()
	return c.deleteAll(ctx, all)
}
