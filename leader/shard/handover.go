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

// room bounds the keys in a record.
type room struct{ keys, bytes int }

// leftRoom is what is left with a slot; claimRoom is for those of several slots that a range had before.
var (
	leftRoom  = room{100, 16 << 10}
	claimRoom = room{400, 64 << 10}
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
	keys := slices.Clone(s.Left(slot))
	for _, key := range keysOf(lease) {
		mine := s.ranges == nil || s.ranges.slotOf(key.Namespace) == slot
		if mine && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	s.Leave(slot, keys)
}

// keysOf returns the keys in the record of a slot, which may be nil.
func keysOf(lease *coordinationv1.Lease) (keys []types.NamespacedName) {
	if lease == nil || lease.Annotations[keysAnnotation] == "" {
		return nil
	}
	var texts []string
	_ = json.Unmarshal([]byte(lease.Annotations[keysAnnotation]), &texts) // another client may have edited it
	for _, text := range texts {
		if namespace, name, ok := strings.Cut(text, "/"); ok {
			keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return keys
}

// leave writes the keys into the record of a slot that is to be released, and returns how many have no room.
func (s *Shards) leave(slot int, lease *coordinationv1.Lease) (cut int) {
	keys := s.Left(slot)
	if s.ranges != nil {
		keys = slices.Concat(keys, s.ranges.foreign(slot, lease))
	}
	return keep(lease, keys, leftRoom)
}

// keep writes keys into a record that is to be written, and returns how many have no room.
func keep(lease *coordinationv1.Lease, keys []types.NamespacedName, most room) (cut int) {
	texts, size := make([]string, 0, min(len(keys), most.keys)), 0
	for _, key := range keys {
		text := key.String()
		if size += len(text) + len(`"",`); len(texts) == most.keys || size > most.bytes {
			break
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		lease.Annotations = maps.Clone(lease.Annotations)
		delete(lease.Annotations, keysAnnotation)
		return len(keys)
	}
	text, _ := json.Marshal(texts) // strings have no errors
	annotate(lease, keysAnnotation, string(text))
	return len(keys) - len(texts)
}
