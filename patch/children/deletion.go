package children

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch"
)

// deleteOthers deletes the cached children that are not wanted. All that are wanted
// are there.
func (c *call[T]) deleteOthers(ctx context.Context) error {
	var others []T
	for child := range c.byOwner.Get(c.owner.GetUID()) {
		if !c.wanted[keyOf(child)] && child.GetDeletionTimestamp() == nil {
			others = append(others, child)
		}
	}
	if len(others) == 0 {
		return nil
	}
	if err := c.checkLimit(len(others), keyOf(others[0])); err != nil {
		return terminal.Mark(err)
	}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	var errs []error
	for _, child := range others {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("stopping before %q: %w", keyOf(child), ctx.Err()))
			break
		}
		locked := child.GetResourceVersion() != "" // fakes have none
		errs = append(errs, patch.Delete(ctx, c.of, child, &patch.Options{Lock: locked}))
	}
	return merged(errs)
}

// checkLimit refuses to delete too many children, such as example.
func (c *call[T]) checkLimit(n int, example fmt.Stringer) error {
	all := n + len(c.wanted)
	if n <= c.options.MaxCount || float64(n) <= c.options.MaxShare*float64(all) {
		return nil
	}
	return fmt.Errorf("%w: %d of %d children are no longer wanted (such as %s), more than %d and more than %g %%: "+
		"none is deleted; let the owner want fewer step by step, or raise children.Options.MaxCount or MaxShare",
		ErrLimit, n, all, example, c.options.MaxCount, percent*c.options.MaxShare)
}

const percent = 100

// confirm returns nil if the server has the owner as it was read, which it is asked
// once in a call.
func (c *call[T]) confirm(ctx context.Context) error {
	if c.confirmed {
		return nil
	}
	live, err := c.readOwner(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return c.changed("it was deleted since it was read")
	case err != nil:
		return fmt.Errorf("confirming that it is as it was read: %w", err)
	case live.GetUID() != c.owner.GetUID():
		return c.changed(fmt.Sprintf("it was recreated since it was read: its UID was %q and is %q",
			c.owner.GetUID(), live.GetUID()))
	case live.GetResourceVersion() != c.owner.GetResourceVersion() || live.GetDeletionTimestamp() != nil:
		return c.changed(fmt.Sprintf("it was changed since it was read: its resourceVersion was %q and is %q",
			c.owner.GetResourceVersion(), live.GetResourceVersion()))
	}
	c.confirmed = true
	return nil
}

// changed is a refusal that satisfies patch.IsStale.
func (c *call[T]) changed(how string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: c.kind.Group, Resource: c.kind.Kind}, c.owner.GetName(),
		errors.New(how))
}

// merged returns the errors in one. Refusals of stale objects, which the next
// reconcile cures, are left out beside others: the whole would pass for one.
func merged(errs []error) error {
	var failures []error
	for _, err := range errs {
		if err != nil && !patch.IsStale(err) {
			failures = append(failures, err)
		}
	}
	if failures == nil {
		return errors.Join(errs...)
	}
	return errors.Join(failures...)
}
