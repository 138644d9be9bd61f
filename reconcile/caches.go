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
	// gather is how long a fill waits for more slots to join. It waits again
	// while more do. Slots arrive in groups, and each fill opens a watch and,
	// where the server does not select shards, lists the whole kind.
	gather = 300 * time.Millisecond
	// gatherings is how often a fill waits at most.
	gatherings = 5
)

// shardCaches makes the controller's informers keep only the objects of this
// replica's slots.
type shardCaches struct {
	ranger     slots.Ranger
	controller *core
	keep       time.Duration   // how long the key of a deleted object is kept
	deleted    func(Key)       // called with the key of an object that was deleted before this replica got its slot
	replays    *sync.WaitGroup // counts goroutines

	mu      sync.Mutex // guards the fields below
	waiting map[int]*cachedSlot
	// late is the error of a fill that takes longer than takeoverDeadline.
	late error
}

// cachedSlot is a slot whose objects are cached, or will be.
type cachedSlot struct {
	filled coalescedCall // the fill that takes it
	left   bool
	drop   func(slot int) // drops the cached objects; nil until they are cached
}

// join requests the objects of a slot. The next fill brings them, or the
// present one if it still waits for more slots. leave drops the objects.
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

// fill brings the objects of all slots that have joined, at least as new as the
// server was at the call. Then it looks in the background for objects that were
// deleted before.
func (s *shardCaches) fill(ctx context.Context) {
	if !s.gathered(ctx) {
		return
	}
	s.mu.Lock()
	joined := s.waiting
	s.waiting = map[int]*cachedSlot{}
	s.mu.Unlock()
	all := slices.Collect(maps.Keys(joined))
	if len(all) == 0 {
		return
	}
	watched := s.watch(ctx, all)
	s.controller.sources.renewReferences()
	drop, err := s.ranger.Fill(ctx, s.controller.sources.caches(), all)
	watched()
	if err == nil {
		s.replays.Go(func() { s.replay(ctx, all) })
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

// gathered waits until no more slots have joined for a while. It reports false
// if no slot has joined, or if ctx has ended before.
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

// watch logs that a fill has not ended in time, and makes overdue return it,
// until filled is called.
func (s *shardCaches) watch(ctx context.Context, numbers []int) (filled func()) {
	over := false // s.mu guards it
	slices.Sort(numbers)
	slow := time.AfterFunc(takeoverDeadline, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !over {
			s.late = fmt.Errorf("caching the objects of slots %v: they have not been listed within %v, see the log for why",
				numbers, takeoverDeadline)
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

// replay looks for objects that were deleted before this replica got their
// slots. The last owner may have stopped, or failed to clean up.
func (s *shardCaches) replay(ctx context.Context, numbers []int) {
	err := s.ranger.Deleted(ctx, s.controller.sources[0].Parts().Shards(), numbers, s.keep, s.deleted)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err,
			"objects that were deleted before this replica got their shard may not be reconciled",
			"controller", s.controller.name)
	}
}

// caches returns the sources for a [slots.Ranger]. Caches of references are not
// included: they hold what the keys of this replica refer to, not the objects
// of slots.
func (all sources) caches() []slots.Cache {
	caches := make([]slots.Cache, 0, len(all))
	for _, s := range all {
		if referencesOf(s) == nil {
			caches = append(caches, s.Parts().Shards())
		}
	}
	return caches
}
