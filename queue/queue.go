package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/homeostat/homeostat/internal/simhook"
)

// ErrStopped is returned by [Queue.Get] when no more keys will come: after Stop,
// and after Drain once the last waiting key has been dispatched.
var ErrStopped = errors.New("the queue has stopped")

// A Queue dispatches keys, each to one worker at a time. Make one with [New]. It
// is safe for concurrent use.
//
// All methods take one lock for a short time. Only Get waits for anything else,
// and no code of the caller's runs under the lock.
type Queue[K comparable] struct {
	gate   func(context.Context) // called before a key is chosen; nil without a simulator
	jitter func() float64

	mu       sync.Mutex // guards the fields below; released by unlock
	waiters  waiters
	schedule schedule[K]
	emptied  chan struct{} // closed when nothing waits or is held; nil if no caller waits for that
}

// New returns an empty queue. A nil o means the defaults. It starts nothing: no
// goroutine, no timer. A queue that is no longer used needs no Stop.
//
// Errors: every option that is out of range, joined.
func New[K comparable](o *Options[K]) (*Queue[K], error) {
	options := o.withDefaults()
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("making queue %q: %w", options.Name, err)
	}
	q := &Queue[K]{jitter: rand.Float64, waiters: waiters{clock: options.Clock}}
	if hooks := simhook.Current(); hooks != nil {
		if hooks.Jitter != nil {
			q.jitter = hooks.Jitter
		}
		if hooks.Gate != nil {
			q.gate = hooks.Gate(options.Name)
		}
	}
	s := &q.schedule
	s.options, s.epoch, s.table = options, options.Clock.Now(), newTable[K]()
	s.lanes.entries = &s.table.slab
	if options.Group == nil {
		s.lanes.groups.take() // onlyGroup
	} else {
		s.lanes.numberOf = map[string]uint32{}
	}
	return q, nil
}

// Name returns [Options].Name.
func (q *Queue[K]) Name() string { return q.schedule.options.Name }

// unlock releases mu and wakes the callers of Get that have something to do.
func (q *Queue[K]) unlock() {
	s := &q.schedule
	if s.mode != running && s.lanes.ready == 0 && s.readded == 0 {
		if s.mode == stopped || !s.owes() {
			q.waiters.wakeAll()
		}
		if s.leases.live == 0 && q.emptied != nil {
			close(q.emptied)
			q.emptied = nil
		}
	}
	if w := &q.waiters; len(w.idle) > 0 || w.timer != nil {
		w.notify(s.lanes.ready, s.timers.next())
	}
	q.mu.Unlock()
}

// Add makes key wait in lane Live, unless it is already waiting there.
func (q *Queue[K]) Add(key K) { q.AddWithOptions(key, AddOptions{}) }

// AddWithOptions makes key wait as a says. Additions of a key that is already
// waiting are merged: it is dispatched once, for all their causes. A key that is
// held by a worker is dispatched again when its item has ended. After Drain or
// Stop it does nothing. It never waits for a worker.
func (q *Queue[K]) AddWithOptions(key K, a AddOptions) {
	s := &q.schedule
	group := q.groupOf(key)
	hash := s.table.hash(key) // outside the lock, to hold that for a shorter time
	q.mu.Lock()
	s.add(key, hash, group, &a)
	q.unlock()
}

// groupOf calls the user's function, outside the lock.
func (q *Queue[K]) groupOf(key K) string {
	if group := q.schedule.options.Group; group != nil {
		return group(key)
	}
	return ""
}

// Forget forgets the failures of key: the next one is its first again. A retry
// that is already scheduled still comes at its time; a back-off that no key is
// waiting for ends. It does nothing for a key that has not failed.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.unlock()
	s := &q.schedule
	n, e := s.table.get(key)
	if n == 0 || e.retry == 0 {
		return
	}
	r := s.retries.at(e.retry)
	s.retries.forget(r)
	if e.pending == nothing && e.state != held {
		r.backoff = 0
		s.reschedule(n, s.now())
	}
}

// Cancel drops the timer of key, a retry included, and reports whether there was
// one. The key keeps its failures and its back-off until [Queue.Forget]. Additions
// without a delay are not cancelled: a key that was added during its back-off is
// still dispatched when the back-off ends.
func (q *Queue[K]) Cancel(key K) bool {
	q.mu.Lock()
	defer q.unlock()
	s := &q.schedule
	n, e := s.table.get(key)
	if n == 0 {
		return false
	}
	dropped := s.dropLater(e)
	if e.pending == timer && e.state != waiting {
		s.setPending(e, nothing, 0)
		s.causes.drop(e.causes)
		e.causes, dropped = 0, true
		e.marks &^= notOwn | ownTimer
	}
	if dropped && e.pending == nothing && e.state != held {
		s.reschedule(n, s.now())
	}
	return dropped
}

// Release ends the hold that [Item.Hold] began: key is dispatched as soon as it
// is added, or at once if it has been. It does nothing if there is no hold.
func (q *Queue[K]) Release(key K) {
	q.mu.Lock()
	defer q.unlock()
	s := &q.schedule
	n, e := s.table.get(key)
	if n == 0 || e.retry == 0 || s.retries.at(e.retry).hold == 0 {
		return
	}
	s.retries.at(e.retry).hold = 0
	if e.state == delayed {
		s.reschedule(n, s.now())
	}
}

// Len returns how many keys are waiting for a worker. Keys that are held or
// delayed do not count.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.unlock()
	q.schedule.promote(q.schedule.now())
	return q.schedule.lanes.ready
}

// Drain stops the intake: later additions, timers and retries are dropped. Keys that
// were added without a delay before are still dispatched: those that wait for a
// worker, those that a worker holds, when their item has ended, and those that wait for
// the end of a hold, a back-off or the minimum interval, at that time. When none is
// left, Get returns [ErrStopped]. Drain does not wait for that, and cannot be undone.
func (q *Queue[K]) Drain() {
	q.mu.Lock()
	defer q.unlock()
	if q.schedule.mode != running {
		return
	}
	q.schedule.promote(q.schedule.now())
	q.schedule.end(draining, func(e *entry[K]) bool {
		return e.state == idle || e.state == delayed && e.pending != demand
	})
	q.waiters.wakeAll()
}

// Stop drops all waiting keys. Get returns [ErrStopped], also to callers already
// waiting in it. Held items may be ended as usual, or not at all. It cannot be
// undone.
func (q *Queue[K]) Stop() {
	q.mu.Lock()
	defer q.unlock()
	q.schedule.end(stopped, func(e *entry[K]) bool { return e.state != held })
	q.waiters.wakeAll()
}
