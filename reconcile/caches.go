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
	// gatherPeriod is how long a fill waits for more slots to join. If more
	// have joined, it waits again. Slots arrive in groups, and each fill is
	// expensive: it opens a watch and, if the server cannot select shards,
	// lists the whole kind.
	gatherPeriod = 300 * time.Millisecond
	// maxGatherings is the maximum number of times that one fill waits for
	// gatherPeriod.
	maxGatherings = 5
)

// shardCaches makes the controller's informers keep only the objects of this
// replica's slots.
type shardCaches struct {
	ranger     slots.Ranger
	controller *core
	keep       time.Duration   // how long the key of a deleted object is kept
	deleted    func(Key)       // called with the key of an object that was deleted before this replica got its slot
	replays    *sync.WaitGroup // counts the goroutines that call replay

	mu      sync.Mutex // guards the fields below
	waiting map[int]*cachedSlot
	// lateErr is the error that overdue returns while a fill takes longer than
	// takeoverDeadline; otherwise nil.
	lateErr error
}

// cachedSlot is a slot whose objects are cached, or will be.
type cachedSlot struct {
	filled coalescedCall  // the fill that caches the slot's objects
	left   bool           // whether the leave function of join was called
	drop   func(slot int) // drops the cached objects; nil until they are cached
}

// join requests the objects of a slot and returns the fill that will cache
// them. It is the current fill if that is still waiting for more slots, and
// otherwise the next one. leave drops the objects.
func (s *shardCaches) join(slot int) (filled *coalescedCall, leave func()) {
	slotCache := &cachedSlot{filled: newCall()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[slot] = slotCache
	return &slotCache.filled, func() {
		s.mu.Lock()
		if s.waiting[slot] == slotCache {
			delete(s.waiting, slot)
		}
		slotCache.left = true
		drop := slotCache.drop
		s.mu.Unlock()
		if drop != nil {
			drop(slot)
		}
	}
}

// fill caches the objects of all slots that have joined, at least as new as the
// server was when fill was called. If that succeeds, it looks in the background
// for objects that were deleted before this replica got their slots.
func (s *shardCaches) fill(ctx context.Context) {
	if !s.gathered(ctx) {
		return
	}
	s.mu.Lock()
	joined := s.waiting
	s.waiting = map[int]*cachedSlot{}
	s.mu.Unlock()
	numbers := slices.Collect(maps.Keys(joined))
	if len(numbers) == 0 {
		return
	}
	watched := s.watch(ctx, numbers)
	s.controller.sources.renewReferences()
	drop, err := s.ranger.Fill(ctx, s.controller.sources.caches(), numbers)
	watched()
	if err == nil {
		s.replays.Go(func() { s.replay(ctx, numbers) })
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

// gathered waits until no slot has joined for gatherPeriod, for at most
// maxGatherings periods. It reports false if no slot has joined at all, or if
// ctx ends first.
func (s *shardCaches) gathered(ctx context.Context) bool {
	joined := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiting)
	}
	previous := joined()
	if previous == 0 { // an earlier fill has taken all slots
		return false
	}
	ticks := time.Tick(gatherPeriod)
	for range maxGatherings {
		select {
		case <-ctx.Done():
			return false
		case <-ticks:
		}
		count := joined()
		if count <= previous {
			return true
		}
		previous = count
	}
	return true
}

// watch reports a fill that takes too long. If filled has not been called
// within takeoverDeadline, watch logs an error, and overdue returns that error
// until filled is called.
func (s *shardCaches) watch(ctx context.Context, numbers []int) (filled func()) {
	ended := false // s.mu guards it
	slices.Sort(numbers)
	slow := time.AfterFunc(takeoverDeadline, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !ended {
			s.lateErr = fmt.Errorf("caching the objects of slots %v: they have not been listed within %v; the log has "+
				"the reason",
				numbers, takeoverDeadline)
			klog.FromContext(ctx).Error(s.lateErr, "not reconciling the keys of these slots, waiting",
				"controller", s.controller.name)
		}
	})
	return func() {
		slow.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		ended, s.lateErr = true, nil
	}
}

// overdue returns an error that names the slots if a fill takes too long, and
// nil otherwise.
func (s *shardCaches) overdue() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lateErr
}

// replay looks for objects that were deleted before this replica got their
// slots. Their last owner may have stopped before it cleaned up, or may have
// failed to do so.
func (s *shardCaches) replay(ctx context.Context, numbers []int) {
	err := s.ranger.Deleted(ctx, s.controller.sources[0].Parts().Shards(), numbers, s.keep, s.deleted)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "cannot find all objects that were deleted before this replica acquired "+
			"their shard, some deletions may be missed",
			"controller", s.controller.name)
	}
}

// caches returns the sources for a [slots.Ranger]. Caches of references are not
// included: they hold what the keys of this replica refer to, not the objects
// of slots.
func (informers sources) caches() []slots.Cache {
	caches := make([]slots.Cache, 0, len(informers))
	for _, s := range informers {
		if referencesOf(s) == nil {
			caches = append(caches, s.Parts().Shards())
		}
	}
	return caches
}
