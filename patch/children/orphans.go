package children

import (
	"cmp"
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
// left behind. It is for a Set with [Options].ByLabel. Call it where the object
// of a key is not found:
//
//	mirror, ok := r.Object()
//	if !ok {
//		return reconcile.Result{}, copies.DeleteOrphans(ctx, r.Key)
//	}
//
// reconcile.Owned adds the keys of the owners of all cached children, including
// owners that were deleted without a finalizer, or while the program was down.
//
// A child is deleted only if the server of the owners confirms that there is no
// owner with that name, or that its UID is not the UID in the child's mark. The latter
// means that the owner was recreated. Ensure for the new owner would also adopt
// or delete the child.
//
// DeleteOrphans finds the children that are in the scope of the cache, as
// [Set.DeleteAll] does. It sends no request if the cache has no such child.
// Otherwise it sends one request to read the owner and one for each deletion.
// DeleteOrphans returns the errors of the requests, and terminal errors for
// invalid arguments of New, and for owners in another cluster without
// [Options].Origin.
func (s *Set[T]) DeleteOrphans(ctx context.Context, owner types.NamespacedName) error {
	if s.err != nil {
		return terminal.Mark(fmt.Errorf("deleting the children left behind by %s %q: %w", s.kind.Kind, owner, s.err))
	}
	if err := s.deleteOrphans(ctx, owner); err != nil {
		return fmt.Errorf("deleting the children left behind by %s %q: %w", s.kind.Kind, owner, err)
	}
	return nil
}

func (s *Set[T]) deleteOrphans(ctx context.Context, owner types.NamespacedName) error {
	var candidates []T
	for child := range s.byOwner.Get(markOf(s.kind, owner, "").ID()) {
		marked, _ := mark.Of(child)
		if child.GetDeletionTimestamp() == nil && !isCopy(child) && marked.Origin == s.options.Origin {
			candidates = append(candidates, child)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	former, _ := mark.Of(candidates[0]) // with any UID, the reader refuses an owner without a UID
	named := &metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name, UID: former.UID}
	read, err := s.reader(named)
	if err := cmp.Or(err, s.checkServers(named)); err != nil {
		return terminal.Mark(err)
	}
	liveUID := types.UID("")
	switch live, err := read(ctx); {
	case s.absent(err, owner):
	case err != nil:
		return fmt.Errorf("checking whether the owner was deleted: %w", err)
	default:
		liveUID = live.GetUID()
	}
	var orphans []T
	for _, child := range candidates {
		if marked, ok := mark.Of(child); ok && marked.UID != liveUID {
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
// DeleteAll first waits until the cache is as new as the server, because it
// must not miss a child. It sends the requests of
// [informer.Informer.WaitForLatest] and one for each child.
//
// DeleteAll finds the children that are in the scope of the cache. A child in a
// namespace that the informer does not watch, such as one that was removed from
// informer.Options.Namespaces, or a child without the label of its selector,
// stays.
//
// DeleteAll returns the errors of the requests, and an error if the cache is
// not complete, because a namespace cannot be listed or because a child is
// unreadable (see [informer.Informer.Unreadable]). It returns a terminal error
// for invalid arguments of New, and if owner is nil, has no UID, or is not
// being deleted.
func (s *Set[T]) DeleteAll(ctx context.Context, owner metav1.Object) error {
	if bound.IsNil(owner) {
		return terminal.Mark(fmt.Errorf("deleting the children of a %s: the owner is nil", s.kind.Kind))
	}
	c, err := s.begin(ctx, owner)
	if err == nil {
		err = c.mayOwn(owner.GetNamespace())
	}
	if err == nil && owner.GetDeletionTimestamp() == nil {
		err = errors.New("the owner is not being deleted")
	}
	if err != nil {
		return terminal.Mark(fmt.Errorf("deleting the children of %s: %w", nameOf(owner, s.kind), err))
	}
	if err := c.deleteOwn(ctx); err != nil {
		return fmt.Errorf("deleting the children of %s: %w", nameOf(owner, s.kind), err)
	}
	return nil
}

// deleteOwn deletes the children with the owner's UID. Children that match only
// the owner's name may belong to a new owner with that name.
func (c *call[T]) deleteOwn(ctx context.Context) error {
	if !c.cache.HasSynced() {
		return fmt.Errorf("the cache of %s is not complete", c.cache.Name())
	}
	if err := c.cache.WaitForLatest(ctx); err != nil {
		return err
	}
	var children []T
	for _, child := range c.children() {
		if c.relationOf(child) == ownChild {
			children = append(children, child)
		}
	}
	c.mu.Lock()
	delete(c.notes, c.owner.GetUID())
	c.mu.Unlock()
	return errors.Join(c.deleteAll(ctx, children), c.unreadable())
}

// unreadable returns an error that names the children that exist, but cannot be
// cached.
func (c *call[T]) unreadable() error {
	var errs []error
	for _, m := range c.cache.Parts().Unreadable() {
		key := bound.KeyOf(&m)
		if err := c.cache.Unreadable(key); err != nil && c.relationOf(&m) == ownChild && !isCopy(&m) {
			errs = append(errs, fmt.Errorf("child %q cannot be read: correct or delete it: %w", key, err))
		}
	}
	return errors.Join(errs...)
}
