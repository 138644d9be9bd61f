package children

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
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
