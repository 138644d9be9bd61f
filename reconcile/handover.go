package reconcile

import (
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// unfinished are the keys of deleted objects that wait for a reconcile, the first or after
// one that has not succeeded. When their slot moves, its record is all that leads the next
// owner to them. The mutex of shardRunner guards it.
type unfinished map[Key]bool

// noteDeletion keeps the key of a deleted object until it is dispatched. Call it before
// the key is enqueued.
func (s *shardRunner) noteDeletion(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unfinished) < passingKeys {
		s.unfinished[key] = true
	}
}

// note keeps a key again that the verdict on its reconcile has not finished. Call it
// before the item ends: then the key may be dispatched again.
func (s *shardRunner) note(key Key, v verdict) {
	if s == nil || v.outcome == inspect.Succeeded || v.outcome == inspect.GaveUp || s.controller.primary.has(key) {
		return
	}
	s.noteDeletion(key)
}

// leave gives the unfinished keys of a slot to its next owner.
func (s *shardRunner) leave(slot int) {
	var moving []Key
	s.mu.Lock()
	delete(s.draining, slot)
	for key := range s.unfinished {
		if s.slotOf(key) == slot {
			moving = append(moving, key)
			delete(s.unfinished, key)
		}
	}
	s.mu.Unlock()
	if h, ok := s.controller.options.Shards.(slots.Handover); ok {
		h.Leave(slot, moving)
	}
}

// left returns the keys that the last owners have left with slots.
func (s *shardRunner) left(of map[int]bool) (keys []Key) {
	h, ok := s.controller.options.Shards.(slots.Handover)
	if !ok {
		return nil
	}
	for slot := range of {
		keys = append(keys, h.Left(slot)...)
	}
	return keys
}
