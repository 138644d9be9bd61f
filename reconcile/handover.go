package reconcile

import (
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// unfinished are the keys of deleted objects whose clean-up has not succeeded, and those
// that the last owner has left, until they are reconciled. When their slot moves, its
// record is all that leads the next owner to them. The mutex of shardRunner guards it.
type unfinished map[Key]bool

// note keeps or forgets a key by the verdict on its reconcile. Call it before the item
// ends: then the key may be dispatched again.
func (s *shardRunner) note(key Key, v verdict) {
	if s == nil {
		return
	}
	over := v.outcome == inspect.Succeeded || v.outcome == inspect.GaveUp || s.controller.primary.has(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case over:
		delete(s.unfinished, key)
	case len(s.unfinished) < passingKeys:
		s.unfinished[key] = true
	}
}

// leave gives the unfinished keys of a slot to its next owner.
func (s *shardRunner) leave(slot int) {
	var moving []Key
	s.mu.Lock()
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

// left returns the keys that the last owners have left with slots. They are unfinished:
// a slot may move on before their first reconcile.
func (s *shardRunner) left(of map[int]bool) (keys []Key) {
	h, ok := s.controller.options.Shards.(slots.Handover)
	if !ok {
		return nil
	}
	for slot := range of {
		for _, key := range h.Left(slot) {
			if s.slotOf(key) == slot { // another client may have edited the record
				keys = append(keys, key)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if len(s.unfinished) < passingKeys {
			s.unfinished[key] = true
		}
	}
	return keys
}
