package children

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/patch"
)

// children returns the cached children of the owner that are not being deleted,
// each once. With ByLabel it includes the children of a deleted owner with the
// same name. It leaves out copies that others have made of a child: they have
// its mark, but are not what the owner has made.
func (c *call[T]) children() (found []T) {
	values := []string{string(c.owner.GetUID())}
	if c.options.ByLabel {
		values = append(values, c.mark.ID())
	}
	seen := map[types.NamespacedName]bool{}
	for _, value := range values {
		for child := range c.byOwner.Get(value) {
			key := bound.KeyOf(child)
			if relation := c.relationOf(child); (relation == ownChild || relation == former) && !seen[key] &&
				child.GetDeletionTimestamp() == nil && !isCopy(child) {
				seen[key] = true
				found = append(found, child)
			}
		}
	}
	return found
}

// deleteUnwanted deletes the cached children that are not wanted. It deletes no
// child in the namespaces in unfit, in which a wanted child is not in place yet.
// It returns the refusal of the safety limit as limit, and any other error as
// failed.
func (c *call[T]) deleteUnwanted(ctx context.Context, unfit map[string]bool) (limit, failed error) {
	var unwanted, deletable []T
	for _, child := range c.children() {
		if !c.wanted[bound.KeyOf(child)] {
			unwanted = append(unwanted, child)
			if !unfit[child.GetNamespace()] {
				deletable = append(deletable, child)
			}
		}
	}
	if len(unwanted) == 0 {
		c.noteSettled()
		return nil, nil
	}
	if len(deletable) == 0 {
		return nil, nil
	}
	if err := c.checkLimit(unwanted); err != nil {
		return err, nil
	}
	if err := c.confirm(); err != nil {
		return nil, err
	}
	return nil, c.deleteAll(ctx, deletable)
}

// deleteAll deletes children. Each deletion requires the UID and the
// resourceVersion that the cached child has.
func (s *Set[T]) deleteAll(ctx context.Context, children []T) error {
	errs, done := callAll(ctx, len(children), s.options.Parallel, func(i int) error {
		locked := children[i].GetResourceVersion() != "" // empty with fakes
		return patch.Delete(ctx, s.clients, children[i], &patch.Options{Lock: locked})
	})
	if !done {
		errs = append(errs, stopError(ctx, "deleted"))
	}
	return sumErrors(errs...)
}

// confirmOwner returns nil if the server's owner has not changed since it was
// read, and a conflict if it has changed.
func (c *call[T]) confirmOwner(ctx context.Context, read readOwner) error {
	live, err := read(ctx)
	switch {
	case c.absent(err, bound.KeyOf(c.owner)):
		return c.changed("the owner was deleted since it was read")
	case err != nil:
		return fmt.Errorf("confirming that the owner has not changed: %w", err)
	case live.GetUID() != c.owner.GetUID():
		return c.changed(fmt.Sprintf("the owner was recreated since it was read: its UID was %q and is %q",
			c.owner.GetUID(), live.GetUID()))
	case live.GetResourceVersion() != c.owner.GetResourceVersion() || live.GetDeletionTimestamp() != nil:
		return c.changed(fmt.Sprintf("the owner was changed since it was read: its resourceVersion was %q and is %q",
			c.owner.GetResourceVersion(), live.GetResourceVersion()))
	}
	return nil
}

// changed returns a conflict, for which patch.IsStale reports true. change says
// how the owner or a child has changed.
func (c *call[T]) changed(change string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: c.kind.Group, Resource: c.kind.Kind}, c.owner.GetName(),
		errors.New(change))
}
