package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/slots"
)

const (
	// gather is how long a fill waits for more slots to join, and again while more do. Slots come in groups, and each
	// fill opens a watch and, where the server does not select shards, lists the whole kind.
	gather = 300 * time.Millisecond
	// gatherings is how many times it waits at most.
	gatherings = 5
)

// shardCaches makes the controller's informers keep the objects of this replica's slots
// only.
type shardCaches struct {
	ranger     slots.Ranger
	controller *core
	keep       time.Duration   // how long the key of a deleted object is kept
	deleted    func(Key)       // takes the key of an object that was deleted before its slot came
	replays    *sync.WaitGroup // counts goroutines

	mu      sync.Mutex // guards the fields below
	waiting map[int]*cachedSlot
	// late says that a fill takes longer than takeoverDeadline.
	late error
}

// cachedSlot is a slot whose objects are cached, or will be.
type cachedSlot struct {
	filled coalescedCall // the fill that takes it
	left   bool
	drop   func(slot int) // nil until they are
}

// join asks for the objects of a slot, which the next fill brings, or the one that gathers. leave drops them.
func (s *shardCaches) join(slot int) (filled *coalescedCall, leave func()) {
	mine := &cachedSlot{filled: newCall()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[slot] = mine
	return &mine.filled, func() {
		s.mu.Lock()
		if s.waiting[slot] == mine {
			delete(s.waiting, slot)
		}
		mine.left = true
		drop := mine.drop
		s.mu.Unlock()
		if drop != nil {
			drop(slot)
		}
	}
}

// fill brings the objects of all slots that have joined, at least as new as the server
// was at the call. Then it looks, in the background, for those that were deleted before.
func (s *shardCaches) fill(ctx context.Context) {
	if !s.gathered(ctx) {
		return
	}
	s.mu.Lock()
	joined := s.waiting
	s.waiting = map[int]*cachedSlot{}
	s.mu.Unlock()
	of := slices.Collect(maps.Keys(joined))
	if len(of) == 0 {
		return
	}
	watched := s.watch(ctx, of)
	s.controller.sources.renewReferences()
	drop, err := s.ranger.Fill(ctx, s.controller.sources.caches(), of)
	watched()
	if err == nil {
		s.replays.Go(func() { s.replay(ctx, of) })
	}
	for slot, cached := range joined {
		s.mu.Lock()
		cached.drop = drop
		left := cached.left
		s.mu.Unlock()
		if left && drop != nil {
			drop(slot)
		}
		cached.filled.end(err)
	}
}

// gathered returns when no more slots have joined for a while, and reports false if none has, or ctx has ended before.
func (s *shardCaches) gathered(ctx context.Context) bool {
	joined := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiting)
	}
	before := joined()
	if before == 0 { // the last call has taken them
		return false
	}
	more := time.Tick(gather)
	for range gatherings {
		select {
		case <-ctx.Done():
			return false
		case <-more:
		}
		now := joined()
		if now <= before {
			return true
		}
		before = now
	}
	return true
}

// watch logs, and lets overdue return, that a fill has not ended in time, until filled is
// called.
func (s *shardCaches) watch(ctx context.Context, of []int) (filled func()) {
	over := false // s.mu guards it
	slices.Sort(of)
	slow := time.AfterFunc(takeoverDeadline, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !over {
			s.late = fmt.Errorf("caching the objects of slots %v: they have not been listed within %v, see the log for why",
				of, takeoverDeadline)
			klog.FromContext(ctx).Error(s.late, "no key of these slots is reconciled, waiting",
				"controller", s.controller.name)
		}
	})
	return func() {
		slow.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		over, s.late = true, nil
	}
}

// overdue returns an error while a fill has not ended in time.
func (s *shardCaches) overdue() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}

// replay looks for objects that were deleted before their slots came: the last owner may
// have drained already, or have failed to clean up.
func (s *shardCaches) replay(ctx context.Context, of []int) {
	err := s.ranger.Deleted(ctx, s.controller.sources[0].Parts().Shards(), of, s.keep, s.deleted)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "objects that were deleted before their shard came may not be reconciled",
			"controller", s.controller.name)
	}
}

// caches returns all sources as a [slots.Ranger] takes them: caches of references are not
// among them, which hold what the keys of this replica refer to.
func (all sources) caches() []slots.Cache {
	caches := make([]slots.Cache, 0, len(all))
	for _, s := range all {
		if referencesOf(s) == nil {
			caches = append(caches, s.Parts().Shards())
		}
	}
	return caches
}
