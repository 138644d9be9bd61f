package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/homeostat/homeostat/internal/guard"
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// sweepPause is the time from the last new slot to the sweep for its orphans.
// Slots arrive in groups, for which one sweep is enough.
const sweepPause = 2 * time.Second

// deletedKept is how long this replica keeps the key of a deleted object in
// another replica's slot, in case it gets the slot. It is two lease durations
// and a reserve. keepDeleted adds the time for which the owner may drain the
// slot. passingKeys bounds each of the two generations of these keys.
const (
	deletedKept = time.Minute
	passingKeys = 10_000
)

// shardRunner reconciles the keys of the slots that this replica owns.
type shardRunner struct {
	controller *core
	orphans    *orphans     // nil without Options.Known
	caches     *shardCaches // nil if the caches hold the objects of all slots
	latest     coalescer    // makes the caches as new as the server: takeOver or, with caches, fill
	fill       coalescer    // enqueues the keys of new slots

	mu       sync.Mutex // guards the fields below
	runs     map[int]*slotRun
	draining map[int]bool // slots whose run has ended, until leave has handed over their keys
	empty    []int        // slots whose keys are still to be enqueued
	sweep    *time.Timer
	deleted  passing // keys of deleted objects of other replicas' slots
	// failed are keys of deleted objects whose reconcile has not succeeded on
	// this replica or on the last owner. waiting are keys of deleted objects
	// that wait for their first reconcile. The next owner usually finds the
	// waiting keys even if they are not handed over.
	failed, waiting unfinished
}

// partsOf returns the methods that shards of this module have beyond [Shards],
// or nil for other implementations.
func partsOf(s Shards) slots.Handover {
	if withParts, ok := s.(interface{ Parts() slots.Handover }); ok {
		return withParts.Parts()
	}
	return nil
}

// cachesOf returns the caches for the slots of a controller. It returns nil if
// these slots are not ranges.
func cachesOf(s *shardRunner) *shardCaches {
	ranger, ok := partsOf(s.controller.options.Shards).(slots.Ranger)
	if !ok {
		return nil
	}
	return &shardCaches{
		ranger: ranger, controller: s.controller, keep: s.keepDeleted(), deleted: s.acceptDeleted,
		waiting: map[int]*cachedSlot{},
	}
}

// slotRun is the time in which this replica owns a slot.
type slotRun struct {
	reconciles context.Context //nolint:containedctx // the parent of all its reconciles
	abandon    context.CancelCauseFunc
	running    sync.WaitGroup
}

// runSlot works on a slot until owned ends. It starts when the caches have seen
// the last owner's writes. If the caches hold the objects of all slots, it
// starts after takeoverDeadline at the latest.
func (s *shardRunner) runSlot(ctx, owned context.Context, slot int) error {
	caches, leave := s.cachesWith(slot)
	defer leave()
	if err := caches.wait(owned); err != nil || owned.Err() != nil {
		return err
	}
	s.begin(owned, slot)
	_ = s.fill.wait(context.WithoutCancel(owned)) // it has no errors
	<-owned.Done()
	s.end(ctx, owned, slot)
	return nil
}

// cachesWith requests the objects of a slot. When the returned call has ended
// without an error, the caches have these objects, as new as the server is now,
// unless takeOver has given up. leave drops them again if this replica caches
// only its own slots.
func (s *shardRunner) cachesWith(slot int) (call *coalescedCall, leave func()) {
	if s.caches == nil {
		return s.latest.join(), func() {}
	}
	filled, leave := s.caches.join(slot)
	s.latest.join()
	return filled, leave
}

// begin lets the keys of a slot be reconciled. Call it before enqueuing them,
// because a key that is dispatched earlier is dropped.
func (s *shardRunner) begin(owned context.Context, slot int) {
	r := &slotRun{}
	r.reconciles, r.abandon = context.WithCancelCause(context.WithoutCancel(owned))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[slot] = r
	s.empty = append(s.empty, slot)
	s.controller.enter(inspect.Working)
}

// end stops reconciling the keys of a slot, waits for the reconciles in flight,
// and drops the controller's records of the keys.
func (s *shardRunner) end(ctx, owned context.Context, slot int) {
	c := s.controller
	s.mu.Lock()
	r := s.runs[slot]
	delete(s.runs, slot)
	s.draining[slot] = true
	switch {
	case ctx.Err() != nil:
		c.enter(inspect.Stopping)
	case len(s.runs) == 0:
		c.enter(inspect.Standby)
	}
	s.mu.Unlock()
	defer r.abandon(nil)
	cause := context.Cause(owned)
	if end, ok := errors.AsType[draining](cause); ok && end.Draining() {
		if ctx.Err() != nil {
			cause = ErrGraceExpired
		}
		grace := time.AfterFunc(c.options.Grace, func() { r.abandon(cause) })
		defer grace.Stop()
	} else {
		r.abandon(cause)
	}
	defer c.watchdog.giveUpAfter(ctx, c.options.Grace+returnTimeout)()
	r.running.Wait()
	moved := func(key Key) bool { return s.slotOf(key) == slot }
	s.leave(slot)
	c.failures.forget(moved)
	c.lingering.forget(moved)
	c.references.forget(moved)
	if s.orphans != nil {
		s.orphans.forget(moved)
	}
}

// draining is a cause with which the context of a slot ends. If Draining
// returns true, this replica keeps the slot until runSlot returns, and
// reconciles in flight have the grace period to finish. With every other cause
// they are cancelled at once.
type draining interface {
	error
	Draining() bool
}

// slotOf returns the slot of key. If Shards.Slot panics, it returns -1, a slot
// that no replica owns.
func (s *shardRunner) slotOf(key Key) (slot int) {
	defer func() {
		if r := recover(); r != nil {
			slot = -1
			s.controller.logPanic(guard.Panicked(r), "Shards.Slot panicked; no replica reconciles the key",
				s.controller.name, key)
		}
	}()
	return s.controller.options.Shards.Slot(key)
}

// owns reports whether this replica reconciles key.
func (s *shardRunner) owns(key Key) bool {
	slot := s.lockWith(key)
	defer s.mu.Unlock()
	return s.runs[slot] != nil
}

// lockWith locks mu and returns the slot of key. If slots are ranges, the slot
// of a key may change while mu is not locked, because this replica may have
// released the slot and got it again with another range.
func (s *shardRunner) lockWith(key Key) (slot int) {
	slot = s.slotOf(key)
	s.mu.Lock()
	if s.caches != nil {
		slot = s.slotOf(key)
	}
	return slot
}

// enter starts a reconcile of key in the run of its slot. It returns nil if
// this replica does not work on that slot now.
func (s *shardRunner) enter(key Key) *slotRun {
	slot := s.lockWith(key)
	defer s.mu.Unlock()
	if !s.draining[slot] { // leave must still find the keys of a draining slot
		delete(s.failed, key)
		delete(s.waiting, key)
	}
	r := s.runs[slot]
	if r != nil {
		r.running.Add(1)
	}
	return r
}

// pass leaves a key to the replica that owns its slot. The key of a deleted
// object is kept for a while, in case this replica gets the slot: without an
// object, no list would lead to the key, and the last owner may be draining, or
// may have failed to clean up. If this replica caches only its own slots, pass
// keeps no key of another slot, whose object may exist.
func (s *shardRunner) pass(key Key) {
	c := s.controller
	if c.exists(key) || s.caches != nil && !c.primary.Parts().InScope(key) { // the cache has no objects of other shards
		return
	}
	s.keep(key)
}

// keep keeps the key of a deleted object in case this replica gets its slot.
func (s *shardRunner) keep(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted.add(key, time.Now(), s.keepDeleted())
}

// keepDeleted returns how long the key of a deleted object is kept, including
// the time for which the owner of its slot may drain.
func (s *shardRunner) keepDeleted() time.Duration { return deletedKept + s.controller.options.Grace }

// acceptDeleted accepts the key of an object that was deleted before this
// replica got its slot. The key is enqueued at once, or when work on the slot
// starts.
func (s *shardRunner) acceptDeleted(key Key) {
	s.keep(key)
	if s.owns(key) {
		s.noteDeletion(key)
		s.controller.enqueueBehind(key, "slot", "deleted", 0)
	}
}

// enqueue adds all cached keys of the new slots, the keys of objects that were
// deleted recently, and the keys that the last owners have left. It also plans
// a sweep for orphans.
func (s *shardRunner) enqueue() error {
	c := s.controller
	s.mu.Lock()
	empty := map[int]bool{}
	for _, slot := range s.empty {
		empty[slot] = true
	}
	s.empty = nil
	if s.orphans != nil && s.sweep == nil {
		s.sweep = time.AfterFunc(sweepPause, s.orphans.sweep.Wake)
	} else if s.sweep != nil {
		s.sweep.Reset(sweepPause)
	}
	deleted := s.deleted.keys()
	s.mu.Unlock()
	add := func(keys []Key, note unfinished) {
		for _, key := range keys {
			if !empty[s.slotOf(key)] { // also for keys that another client has added to a record
				continue
			}
			if !c.exists(key) {
				s.noteIn(note, key)
			}
			c.enqueueBehind(key, "slot", "resync", 0)
		}
	}
	add(s.left(empty), s.failed)
	add(deleted, s.waiting)
	add(c.primary.keys(), s.waiting)
	return nil
}

// objects returns how many cached objects belong to the slots of this replica.
func (s *shardRunner) objects() (n int) {
	owned := map[int]bool{}
	s.mu.Lock()
	for slot := range s.runs {
		owned[slot] = true
	}
	s.mu.Unlock()
	for _, key := range s.controller.primary.keys() {
		if owned[s.slotOf(key)] {
			n++
		}
	}
	return n
}

// cancelSweep stops the timer of a planned sweep.
func (s *shardRunner) cancelSweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sweep != nil {
		s.sweep.Stop()
	}
}

// unfinished are keys of deleted objects in the slots of this replica. When a
// slot moves, its record names these keys for the next owner. The mutex of
// shardRunner guards the map.
type unfinished map[Key]bool

// noteDeletion keeps the key of a deleted object until it is dispatched. Call
// it before the key is enqueued.
func (s *shardRunner) noteDeletion(key Key) {
	if s != nil {
		s.noteIn(s.waiting, key)
	}
}

// note keeps the key of a deleted object whose cleanup is not complete, unless
// the reconciler gave up. Call it before the item ends, because after that the
// key may be dispatched again.
func (s *shardRunner) note(key Key, v verdict) {
	if s == nil || v.outcome == inspect.Succeeded || v.outcome == inspect.GaveUp || s.controller.exists(key) {
		return
	}
	s.noteIn(s.failed, key)
}

// noteIn adds a key to keys, which is failed or waiting, unless keys is full.
// If this replica does not work on the slot of the key, the key is kept only
// for a while, in case this replica gets the slot.
func (s *shardRunner) noteIn(keys unfinished, key Key) {
	slot := s.slotOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.runs[slot] == nil && !s.draining[slot]: // the owner notes the key; this replica may own the slot soon
		s.deleted.add(key, time.Now(), s.keepDeleted())
	case len(keys) < passingKeys:
		keys[key] = true
	}
}

// leave hands the unfinished keys of a slot to its next owner, as many as the
// slot's record has room for. The failed keys are first, because the next owner
// has no other way to find them.
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
	if h := partsOf(s.controller.options.Shards); h != nil {
		h.Leave(slot, slices.DeleteFunc(moving, s.controller.exists)) // a new object leads to its key
	}
}

// left returns the keys that the last owners of the given slots have handed
// over.
func (s *shardRunner) left(empty map[int]bool) (keys []Key) {
	h := partsOf(s.controller.options.Shards)
	if h == nil {
		return nil
	}
	for slot := range empty {
		keys = append(keys, h.Left(slot)...)
	}
	return keys
}

// passing keeps keys for a while. It has two generations: when the younger one
// has lasted long enough, or is full, it replaces the older one.
type passing struct {
	young, old map[Key]bool
	youngSince time.Time // when young was started
}

// add keeps a key for at least the duration of keep, unless more than
// passingKeys other keys are added meanwhile. Only later calls of add remove
// keys, so a key may be kept for longer.
func (p *passing) add(key Key, now time.Time, keep time.Duration) {
	if p.young == nil || now.Sub(p.youngSince) >= keep || len(p.young) >= passingKeys {
		if now.Sub(p.youngSince) >= 2*keep {
			p.young = nil
		}
		p.young, p.old, p.youngSince = map[Key]bool{}, p.young, now
	}
	p.young[key] = true
}

// keys returns the keys that are kept, each once.
func (p *passing) keys() []Key {
	keys := maps.Clone(p.young)
	maps.Copy(keys, p.old) // which is empty if young is nil
	return slices.Collect(maps.Keys(keys))
}
