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
// each once.
func (c *call[T]) children() (all []T) {
	values := []string{string(c.owner.GetUID())}
	if c.options.ByLabel {
		values = append(values, c.mark.ID())
	}
	seen := map[types.NamespacedName]bool{}
	for _, value := range values {
		for child := range c.byOwner.Get(value) {
			key := bound.KeyOf(child)
			if relation := c.relationOf(child); (relation == mine || relation == former) && !seen[key] &&
				child.GetDeletionTimestamp() == nil {
				seen[key] = true
				all = append(all, child)
			}
		}
	}
	return all
}

// deleteOthers deletes the cached children that are not wanted, except in the
// given namespaces. All wanted children in the other namespaces exist.
func (c *call[T]) deleteOthers(ctx context.Context, except map[string]bool) (limit, failed error) {
	var others, now []T
	for _, child := range c.children() {
		if !c.wanted[bound.KeyOf(child)] {
			others = append(others, child)
			if !except[child.GetNamespace()] {
				now = append(now, child)
			}
		}
	}
	if len(others) == 0 {
		c.note(func(n *note) {
			n.refused, n.settled = 0, c.owner.GetGeneration()
		})
		return nil, nil
	}
	if len(now) == 0 {
		return nil, nil
	}
	if err := c.checkLimit(others); err != nil {
		return err, nil
	}
	if err := c.confirm(); err != nil {
		return nil, err
	}
	return nil, c.deleteAll(ctx, now)
}

// deleteAll deletes children. Each deletion requires the UID and the
// resourceVersion that the cached child has.
func (s *Set[T]) deleteAll(ctx context.Context, children []T) error {
	errs, done := sideBySide(ctx, len(children), s.options.Parallel, func(i int) error {
		locked := children[i].GetResourceVersion() != "" // empty with fakes
		return patch.Delete(ctx, s.of, children[i], &patch.Options{Lock: locked})
	})
	if !done {
		errs = append(errs, stopped(ctx, "deleted"))
	}
	return summed(errs...)
}

// confirmOwner returns nil if the server's owner is as it was read, and a
// conflict if it is not.
func (c *call[T]) confirmOwner(ctx context.Context, read readOwner) error {
	live, err := read(ctx)
	switch {
	case c.absent(err, bound.KeyOf(c.owner)):
		return c.changed("it was deleted since it was read")
	case err != nil:
		return fmt.Errorf("confirming that it has not changed: %w", err)
	case live.GetUID() != c.owner.GetUID():
		return c.changed(fmt.Sprintf("it was recreated since it was read: its UID was %q and is %q",
			c.owner.GetUID(), live.GetUID()))
	case live.GetResourceVersion() != c.owner.GetResourceVersion() || live.GetDeletionTimestamp() != nil:
		return c.changed(fmt.Sprintf("it was changed since it was read: its resourceVersion was %q and is %q",
			c.owner.GetResourceVersion(), live.GetResourceVersion()))
	}
	return nil
}

// changed returns a conflict, so that patch.IsStale reports true.
func (c *call[T]) changed(how string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: c.kind.Group, Resource: c.kind.Kind}, c.owner.GetName(),
		errors.New(how))
}
