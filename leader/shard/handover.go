package shard

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/slots"
)

var _ slots.Handover = (*Shards)(nil)

// keysAnnotation has the keys that the owner of a slot has left, as a list of
// namespace/name in JSON.
const keysAnnotation = "leader.homeostat.dev/keys"

// The most that is left with a slot.
const (
	maxLeft      = 100
	maxLeftBytes = 16 << 10
)

// Leave replaces the keys that the next owner of a slot gets, such as those of deleted
// objects that are still to be cleaned up; first those that it knows of by nothing else.
// Call it before the function of the slot returns. The first 100 keys are kept, of 16 KiB
// in all, and how many others there were is logged. They are lost if this replica dies
// before it has released the slot.
func (s *Shards) Leave(slot int, keys []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[slot] = keys
}

// Left returns the keys that the last owner of a slot has left; nil if there are
// none. Call it while the function of the slot runs. The slice is shared; do not
// modify it.
func (s *Shards) Left(slot int) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left[slot]
}

// found adds the keys in the record of a slot that was taken to those that this replica
// could not write there when it lost the slot. They stay in the record until it is
// released: if this replica dies, the next owner finds them.
func (s *Shards) found(slot int, lease *coordinationv1.Lease) {
	var texts []string
	_ = json.Unmarshal([]byte(lease.Annotations[keysAnnotation]), &texts) // another client may have edited it
	keys := slices.Clone(s.Left(slot))
	for _, text := range texts {
		namespace, name, ok := strings.Cut(text, "/")
		key := types.NamespacedName{Namespace: namespace, Name: name}
		if ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	s.Leave(slot, keys)
}

// leave writes the keys into the record of a slot that is to be released, and returns how many have no room.
func (s *Shards) leave(slot int, lease *coordinationv1.Lease) (cut int) {
	keys := s.Left(slot)
	texts, size := make([]string, 0, min(len(keys), maxLeft)), 0
	for _, key := range keys {
		text := key.String()
		if size += len(text) + len(`"",`); len(texts) == maxLeft || size > maxLeftBytes {
			break
		}
		texts = append(texts, text)
	}
	lease.Annotations = maps.Clone(lease.Annotations)
	delete(lease.Annotations, keysAnnotation)
	if len(texts) == 0 {
		return len(keys)
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	text, _ := json.Marshal(texts) // strings have no errors
	lease.Annotations[keysAnnotation] = string(text)
	return len(keys) - len(texts)
}
