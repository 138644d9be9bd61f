package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// unfinished are keys of deleted objects, of slots that this replica has. When their slot
// moves, its record leads the next owner to them. The mutex of shardRunner guards it.
type unfinished map[Key]bool

// noteDeletion keeps the key of a deleted object until it is dispatched. Call it before
// the key is enqueued.
func (s *shardRunner) noteDeletion(key Key) { s.noteIn(s.waiting, key) }

// note keeps a key again that the verdict on its reconcile has not finished. Call it
// before the item ends: then the key may be dispatched again.
func (s *shardRunner) note(key Key, v verdict) {
	if s == nil || v.outcome == inspect.Succeeded || v.outcome == inspect.GaveUp || s.controller.primary.has(key) {
		return
	}
	s.noteIn(s.failed, key)
}

func (s *shardRunner) noteIn(keys unfinished, key Key) {
	slot := s.slotOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.runs[slot] == nil && !s.draining[slot]: // its owner notes it, which this replica may be soon
		s.deleted.add(key, time.Now(), s.keepDeleted())
	case len(keys) < passingKeys:
		keys[key] = true
	}
}

// leave gives the unfinished keys of a slot to its next owner, as many as its record has room for: first those to
// which nothing else leads.
func (s *shardRunner) leave(slot int) {
	var moving []Key
	s.mu.Lock()
	delete(s.draining, slot)
	for _, keys := range []unfinished{s.failed, s.waiting} {
		for key := range keys {
			if s.slotOf(key) == slot {
				moving = append(moving, key)
				delete(s.failed, key)
				delete(s.waiting, key)
			}
		}
	}
	s.mu.Unlock()
	if h, ok := s.controller.options.Shards.(slots.Handover); ok {
		h.Leave(slot, slices.DeleteFunc(moving, s.controller.primary.has)) // a new object leads to its key
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

// passing keeps keys for a while: two generations, of which the older one is
// dropped when the younger has lasted for the time, or is full.
type passing struct {
	young, old map[Key]bool
	since      time.Time // of young
}

// add keeps a key for the time, and for up to twice as long.
func (p *passing) add(key Key, now time.Time, keep time.Duration) {
	if p.young == nil || now.Sub(p.since) >= keep || len(p.young) >= passingKeys {
		if now.Sub(p.since) >= 2*keep {
			p.young = nil
		}
		p.young, p.old, p.since = map[Key]bool{}, p.young, now
	}
	p.young[key] = true
}

// keys returns the keys that are kept, each once.
func (p *passing) keys() []Key {
	all := maps.Clone(p.young)
	if all == nil {
		return nil
	}
	maps.Copy(all, p.old)
	return slices.Collect(maps.Keys(all))
}
