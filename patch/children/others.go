package children

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/patch"
)

// ConfirmAnnotation on an owner confirms deletions that the safety limit has
// refused. Its value is the one in the error, which stands for these deletions
// only.
const ConfirmAnnotation = "homeostat.dev/confirm-deletion"

// note is what a Set remembers about an owner with many children.
type note struct {
	// refused is the number of children that the owner had when the safety
	// limit refused to delete some, or 0. Children that were created after that
	// do not raise the limit.
	refused int
	// settled is the generation of the owner when it last had exactly the
	// children that it wanted, or 0. Only a later change of its spec can mean
	// that it wants fewer on purpose.
	settled int64
}

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
		locked := children[i].GetResourceVersion() != "" // fakes have none
		return patch.Delete(ctx, s.of, children[i], &patch.Options{Lock: locked})
	})
	if !done {
		errs = append(errs, stopped(ctx, "deleted"))
	}
	return summed(errs...)
}

// checkLimit refuses to delete too many of the children that there were before
// the call or, after a refusal, before the first call that was refused.
// Children that were created since do not count.
func (c *call[T]) checkLimit(others []T) error {
	was := c.note(nil)
	if was.refused > 0 {
		c.before = min(c.before, was.refused)
	}
	n, all := len(others), max(c.before, len(others))
	tooMany := n > c.options.MaxCount && float64(n) > c.options.MaxShare*float64(all)
	confirmation := confirmationOf(others)
	intended := was.settled != 0 && c.owner.GetGeneration() > was.settled ||
		c.owner.GetAnnotations()[ConfirmAnnotation] == confirmation
	if !tooMany || intended {
		c.note(func(n *note) { n.refused = 0 })
		return nil
	}
	c.note(func(n *note) { n.refused = c.before })
	return fmt.Errorf("%w: %d of %d children are no longer wanted (such as %s), more than %d and more than %g %%: "+
		"none is deleted; if that is right, annotate the owner with %s=%s, or raise children.Options.MaxCount or MaxShare",
		ErrLimit, n, all, bound.KeyOf(others[0]), c.options.MaxCount, 100*c.options.MaxShare, ConfirmAnnotation, confirmation)
}

// confirmationOf returns the value that confirms the deletion of these children
// and of no others.
func confirmationOf[T informer.Object](others []T) string {
	hash := sha256.New()
	for _, child := range others {
		fmt.Fprintf(hash, "%s %s\n", bound.KeyOf(child), child.GetUID())
	}
	return hex.EncodeToString(hash.Sum(nil)[:4])
}

// note changes what is remembered about the owner, and returns it. Owners with
// few children are not remembered, and neither are owners without children.
func (c *call[T]) note(change func(*note)) note {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.notes[c.owner.GetUID()]
	if change == nil {
		return n
	}
	change(&n)
	if n.refused == 0 && c.before <= c.options.MaxCount && len(c.wanted) <= c.options.MaxCount {
		delete(c.notes, c.owner.GetUID())
		return n
	}
	c.notes[c.owner.GetUID()] = n
	if len(c.notes) > 2*c.kept+16 { // some owners may have been deleted, which is not reported here
		maps.DeleteFunc(c.notes, func(uid types.UID, _ note) bool {
			return uid != c.owner.GetUID() && c.byOwner.Len(string(uid)) == 0
		})
		c.kept = len(c.notes)
	}
	return n
}

// confirmOwner returns nil if the server's owner is as it was read, and a
// conflict if it is not.
func (c *call[T]) confirmOwner(ctx context.Context, read readOwner) error {
	live, err := read(ctx)
	switch {
	case c.absent(err, bound.KeyOf(c.owner)):
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
	return nil
}

// changed returns a conflict, so that patch.IsStale reports true.
func (c *call[T]) changed(how string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: c.kind.Group, Resource: c.kind.Kind}, c.owner.GetName(),
		errors.New(how))
}
