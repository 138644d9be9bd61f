package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// sweepPause is the time from the last slot that has come to the sweep for its
// orphans: slots come in crowds.
const sweepPause = 2 * time.Second

// sharing lets turns run for keys of the slots that this replica has.
type sharing struct {
	controller *Controller
	latest     rounds // waits until the caches are as new as the server
	fill       rounds // enqueues the keys of new shifts

	mu     sync.Mutex // guards what follows
	shifts map[int]*shift
	unused []int // slots whose keys are still to be enqueued
	sweep  *time.Timer
}

// A shift is the time for which this replica has a slot.
type shift struct {
	turns   context.Context //nolint:containedctx // that of all its turns
	abandon context.CancelCauseFunc
	running sync.WaitGroup
}

// share works on the slots of this replica until ctx ends.
func (c *Controller) share(ctx context.Context) error {
	c.enter(inspect.Standby)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	s := c.slots
	s.latest = rounds{running: &running, do: func() error { c.takeOver(background); return nil }}
	s.fill = rounds{running: &running, do: s.enqueue}
	defer s.sweepNoMore()
	for range c.options.Workers {
		c.watch.staff(&running, func(seat *seat) bool { return s.serve(background, seat) })
	}
	return c.options.Shards.Run(ctx, func(owned context.Context, slot int) error { return s.own(ctx, owned, slot) })
}

// own works on a slot until owned ends. The replica that had it before may have
// written until a moment ago: turns begin when the caches have seen that.
func (s *sharing) own(ctx, owned context.Context, slot int) error {
	if err := s.latest.wait(owned); err != nil || owned.Err() != nil {
		return err
	}
	s.begin(owned, slot)
	_ = s.fill.wait(context.WithoutCancel(owned)) // it has no errors
	<-owned.Done()
	s.end(ctx, owned, slot)
	return nil
}

// begin admits turns of a slot. It comes before its keys are enqueued: of a key
// that was handed out too early nothing is remembered.
func (s *sharing) begin(owned context.Context, slot int) {
	w := &shift{}
	w.turns, w.abandon = context.WithCancelCause(context.WithoutCancel(owned))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shifts[slot] = w
	s.unused = append(s.unused, slot)
	s.controller.enter(inspect.Working)
}

// end admits no more turns of a slot, waits for those that run, and forgets
// what is another replica's business from now on.
func (s *sharing) end(ctx, owned context.Context, slot int) {
	c := s.controller
	s.mu.Lock()
	w := s.shifts[slot]
	delete(s.shifts, slot)
	switch {
	case ctx.Err() != nil:
		c.enter(inspect.Stopping)
	case len(s.shifts) == 0:
		c.enter(inspect.Standby)
	}
	s.mu.Unlock()
	defer w.abandon(nil)
	cause := context.Cause(owned)
	if draining, ok := errors.AsType[shard.Draining](cause); ok && draining.Draining() {
		if ctx.Err() != nil {
			cause = ErrStopping
		}
		grace := time.AfterFunc(c.options.Grace, func() { w.abandon(cause) })
		defer grace.Stop()
	} else {
		w.abandon(cause)
	}
	defer c.watch.giveUpOnceStopped(ctx, c.options.Grace+returnWithin)()
	w.running.Wait()
	gone := func(key Key) bool { return c.slot(key) == slot }
	c.failures.forget(gone)
	if c.forgetReplaced != nil {
		c.forgetReplaced(gone)
	}
}

// enter begins a turn of key, unless its slot is another's: then it is nil.
func (s *sharing) enter(key Key) *shift {
	slot := s.controller.slot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.shifts[slot]
	if w != nil {
		w.running.Add(1)
	}
	return w
}

// admits tells whether a key is this replica's.
func (s *sharing) admits(key Key) bool {
	slot := s.controller.slot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shifts[slot] != nil
}

// serve takes the next key and reconciles it if its slot is ours, or else drops
// it. It returns false when ctx has ended.
func (s *sharing) serve(ctx context.Context, seat *seat) bool {
	item, err := s.controller.queue.Get(ctx)
	if err != nil {
		return false
	}
	w := s.enter(item.Key())
	if w == nil {
		s.controller.room.leave(item.Key())
		item.Done()
		return true
	}
	defer w.running.Done()
	s.controller.turn(w.turns, item, seat)
	return true
}

// enqueue adds all known keys of the slots that are new, and has orphans looked
// for when no more come.
func (s *sharing) enqueue() error {
	c := s.controller
	s.mu.Lock()
	unused := map[int]bool{}
	for _, slot := range s.unused {
		unused[slot] = true
	}
	s.unused = nil
	if c.sweep != nil && s.sweep == nil {
		s.sweep = time.AfterFunc(sweepPause, c.sweep.Wake)
	} else if s.sweep != nil {
		s.sweep.Reset(sweepPause)
	}
	s.mu.Unlock()
	for _, key := range c.keys() {
		if unused[c.slot(key)] {
			c.queue.AddWithOptions(key, queue.AddOptions{Lane: queue.Background, Cause: queue.Cause{
				Trigger: "slot", Type: "resync", Namespace: key.Namespace, Name: key.Name,
			}})
		}
	}
	return nil
}

func (s *sharing) sweepNoMore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sweep != nil {
		s.sweep.Stop()
	}
}

// rounds do something for all who ask at about the same time: each waits for
// one round that began after it had asked. It is safe for concurrent use.
type rounds struct {
	do      func() error
	running *sync.WaitGroup // counts the goroutine

	mu   sync.Mutex // guards what follows
	busy bool
	next *round // that has not begun
}

type round struct {
	done chan struct{}
	err  error
}

// wait returns what the round came to, or nil when ctx has ended.
func (r *rounds) wait(ctx context.Context) error {
	mine := r.join()
	select {
	case <-ctx.Done():
		return nil
	case <-mine.done:
		return mine.err
	}
}

func (r *rounds) join() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	if !r.busy {
		r.busy = true
		r.running.Go(r.run)
	}
	return r.next
}

// run does rounds while somebody waits for one.
func (r *rounds) run() {
	for {
		r.mu.Lock()
		now := r.next
		r.next, r.busy = nil, now != nil
		r.mu.Unlock()
		if now == nil {
			return
		}
		now.err = r.do()
		close(now.done)
	}
}
