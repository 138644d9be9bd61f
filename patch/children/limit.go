package children

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/bound"
)

// ConfirmAnnotation is the annotation of an owner that confirms deletions which
// the safety limit has refused. Its value must be the one in the error. That
// value confirms these deletions and no others.
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
	// spec is the hash of the owner's spec when settled was set, see specOf. A
	// higher generation alone does not prove that the spec has changed: if the
	// owner's kind has no status subresource, the generation also grows with
	// writes of the status.
	spec [sha256.Size]byte
}

// checkLimit refuses to delete too large a share of the owner's children,
// unless the owner confirms the deletion with ConfirmAnnotation, or its spec
// has changed since it had exactly the children that it wanted. It compares
// with the children that existed before the call or, after a refusal, before
// the first call that was refused. Children that were created since then do not
// count.
func (c *call[T]) checkLimit(unwanted []T) error {
	noted := c.note(nil)
	if noted.refused > 0 {
		c.countBefore = min(c.countBefore, noted.refused)
	}
	n, total := len(unwanted), max(c.countBefore, len(unwanted))
	tooMany := n > c.options.MaxCount && float64(n) > c.options.MaxShare*float64(total)
	confirmation := confirmationOf(unwanted)
	intended := noted.settled != 0 && c.owner.GetGeneration() > noted.settled && specOf(c.owner) != noted.spec ||
		c.owner.GetAnnotations()[ConfirmAnnotation] == confirmation
	if !tooMany || intended {
		c.note(func(n *note) { n.refused = 0 })
		return nil
	}
	c.note(func(n *note) { n.refused = c.countBefore })
	return fmt.Errorf("%w: %d of %d children are no longer wanted (such as %s), more than %d and more than %g %%: "+
		"not deleting any child; if that is intended, annotate the owner with %s=%s, or raise children.Options.MaxCount "+
		"or MaxShare",
		ErrLimit, n, total, bound.KeyOf(unwanted[0]), c.options.MaxCount, 100*c.options.MaxShare,
		ConfirmAnnotation, confirmation)
}

// noteSettled records that the owner has exactly the children that it wants.
func (c *call[T]) noteSettled() {
	c.note(func(n *note) {
		n.refused = 0
		if generation := c.owner.GetGeneration(); generation != n.settled && c.isLarge() {
			n.settled, n.spec = generation, specOf(c.owner)
		}
	})
}

// specOf returns a hash of an owner's spec or, if its kind has no spec, of all
// members except the metadata and the status. If there is a spec, other members
// do not count, because a program may keep its own state in them. The hash is
// the same for all owners of a kind that is read as metadata only.
func specOf(owner metav1.Object) [sha256.Size]byte {
	data, err := json.Marshal(owner)
	var members map[string]json.RawMessage
	if err != nil || json.Unmarshal(data, &members) != nil {
		return [sha256.Size]byte{}
	}
	if spec, ok := members["spec"]; ok {
		return sha256.Sum256(spec)
	}
	for _, name := range []string{"kind", "apiVersion", "metadata", "status"} {
		delete(members, name)
	}
	data, _ = json.Marshal(members) // it was JSON
	return sha256.Sum256(data)
}

// confirmationOf returns the value that confirms the deletion of these children
// and of no others.
func confirmationOf[T informer.Object](unwanted []T) string {
	hash := sha256.New()
	for _, child := range unwanted {
		fmt.Fprintf(hash, "%s %s\n", bound.KeyOf(child), child.GetUID())
	}
	return hex.EncodeToString(hash.Sum(nil)[:4])
}

// note changes what is remembered about the owner, and returns it. If change is
// nil, it only returns it. An owner with few children is not remembered, unless
// the safety limit has refused a deletion. When there are many notes, note
// drops the notes about owners without children, because these owners may have
// been deleted.
func (c *call[T]) note(change func(*note)) note {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.notes[c.owner.GetUID()]
	if change == nil {
		return n
	}
	change(&n)
	if n.refused == 0 && !c.isLarge() {
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

// isLarge reports whether the owner has, or wants, so many children that the
// safety limit may apply to them.
func (c *call[T]) isLarge() bool { return max(c.countBefore, len(c.wanted)) > c.options.MaxCount }
