package children

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// deletion is what a Set remembers about a child that it has deleted in order
// to create it again, until an object of that name has had the wanted values.
// Without it, a child whose immutable field is changed by an admission webhook
// would be deleted in each reconcile.
type deletion struct {
	uid    types.UID // of the deleted child
	wanted [sha256.Size]byte
}

// isFutile reports whether base was created again after an earlier deletion for
// the same wanted values, and does not have them either. Another deletion would
// have the same outcome. It returns false for other wanted values, and if base
// is the child that was deleted, because the cache is late.
func (c *call[T]) isFutile(base T, wanted [sha256.Size]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.deletions[types.NamespacedName{Namespace: base.GetNamespace(), Name: base.GetName()}]
	return ok && last.wanted == wanted && last.uid != base.GetUID()
}

// noteDeletion records that base was deleted to be created again. When there
// are many records, it drops those about children that are not cached, because
// their owners may be deleted.
func (c *call[T]) noteDeletion(base T, wanted [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := types.NamespacedName{Namespace: base.GetNamespace(), Name: base.GetName()}
	c.deletions[key] = deletion{uid: base.GetUID(), wanted: wanted}
	if len(c.deletions) > 2*c.deletionsKept+16 {
		maps.DeleteFunc(c.deletions, func(other types.NamespacedName, _ deletion) bool {
			_, cached := c.cache.Get(other)
			return !cached && !c.wanted[other]
		})
		c.deletionsKept = len(c.deletions)
	}
}

// forgetDeletion records that the child has the wanted values.
func (c *call[T]) forgetDeletion(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.deletions, key)
}

// wantedIn returns a hash of the values that w gives to these fields of base.
// For a field that cannot be read, it takes the whole object, whose
// resourceVersion makes the hash different from all others.
func (c *call[T]) wantedIn(w Child[T], base T, fields []string) [sha256.Size]byte {
	edited, ok := base.DeepCopyObject().(T)
	if !ok {
		edited = base
	} else {
		c.edit(w, edited)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(edited)
	values := map[string]any{}
	for _, field := range fields {
		path, _, _ := strings.Cut(field, "[")
		value, _, unreadable := unstructured.NestedFieldNoCopy(tree, strings.Split(path, ".")...)
		if values[field] = value; err != nil || unreadable != nil {
			values[field] = edited
		}
	}
	data, _ := json.Marshal(values) // a map of texts is sorted
	return sha256.Sum256(data)
}
