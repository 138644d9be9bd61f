package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/homeostat/homeostat/internal/simhook"
)

// ErrStopped is returned by [Queue.Get] when the queue dispatches no more keys:
// after Stop, and after Drain once no key is left that Drain still dispatches.
var ErrStopped = errors.New("the queue has stopped")

// A Queue dispatches keys, each to one worker at a time. Make one with [New].
// It is safe for concurrent use.
//
// All methods take one lock, and keep it only briefly. Only Get waits for
// something else. Options.Group is never called while the lock is held.
// Options.Clock may be, so its methods must not call the queue.
type Queue[K comparable] struct {
	gate   func(context.Context) // the hook of a simulator, called before each dispatch; nil without a simulator
	jitter func() float64        // returns a random number in [0, 1)

	mu       sync.Mutex // guards the fields below; released by unlock
	waiters  waiters
	schedule schedule[K]
	emptied  chan struct{} // closed once no key waits or is held; nil if no caller waits for that
}

// New returns an empty queue. A nil o means the defaults. New starts no
// goroutine and no timer, so a queue that is no longer used need not be
// stopped.
//
// New returns a joined error that names every option that is out of range.
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

// unlock releases mu. It wakes callers of Get if there are keys for them, if
// there is a new earliest timer, or if the queue has ended.
func (q *Queue[K]) unlock() {
	s := &q.schedule
	if s.mode != running && s.lanes.ready == 0 && s.readded == 0 {
		if s.mode == stopped || !s.mustWait() {
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

// Add adds key in lane Normal, without a delay and without a cause. It is
// [Queue.AddWithOptions] with the zero [AddOptions].
func (q *Queue[K]) Add(key K) { q.AddWithOptions(key, AddOptions{}) }

// AddWithOptions adds key with the lane, the delay and the cause in options.
// Additions of a key that is already waiting are merged: the key is dispatched
// once, for all their causes. A key that is held by a worker is dispatched
// again after its item has ended, and not before its delay has passed. After
// Drain or Stop, AddWithOptions has no effect. It never waits for a worker.
func (q *Queue[K]) AddWithOptions(key K, options AddOptions) {
	s := &q.schedule
	group := q.groupOf(key)
	hash := s.table.hash(key) // before q.mu is locked, to hold it for a shorter time
	q.mu.Lock()
	s.add(key, hash, group, &options)
	q.unlock()
}

// groupOf returns the group of key, "" in a queue without Options.Group. It
// calls a function of the user, so mu must not be held.
func (q *Queue[K]) groupOf(key K) string {
	if group := q.schedule.options.Group; group != nil {
		return group(key)
	}
	return ""
}

// Forget clears the failures of key. Its next failure then counts as the first.
// A retry that is already scheduled keeps its time. If [Queue.Cancel] has
// dropped the retry, and key was not added since, the back-off ends at once.
// Forget has no effect for a key that has not failed.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.unlock()
	s := &q.schedule
	n, e := s.table.get(key)
	if n == 0 || e.retry == 0 {
		return
	}
	r := s.retries.value(e.retry)
	s.retries.forget(r)
	if e.pending == noAddition && e.state != held {
		r.backoff = 0
		s.reschedule(n, s.now())
	}
}

// Cancel drops the timer of key, even if it belongs to a retry, and reports
// whether there was one. The key keeps its failures and its back-off; see
// [Queue.Forget]. Additions without a delay are not cancelled. For example, a
// key that was added during its back-off is still dispatched when the back-off
// ends.
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
		s.setPending(e, noAddition, 0)
		s.causes.drop(e.causes)
		e.causes, dropped = 0, true
		e.marks &^= notOwn | ownTimer | retried
	}
	if dropped && e.pending == noAddition && e.state != held {
		s.reschedule(n, s.now())
	}
	return dropped
}

// Release ends the hold that [Item.Hold] began. If key was added during the
// hold, it can be dispatched now; otherwise it can be dispatched as soon as it
// is added. A back-off and Options.MinInterval still delay it. Release has no
// effect if there is no hold.
func (q *Queue[K]) Release(key K) {
	q.mu.Lock()
	defer q.unlock()
	s := &q.schedule
	n, e := s.table.get(key)
	if n == 0 || e.retry == 0 || s.retries.value(e.retry).hold == 0 {
		return
	}
	s.retries.value(e.retry).hold = 0
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

// Drain stops the intake: later additions, timers and retries are dropped. A
// key that was added without a delay before Drain is still dispatched:
//
//   - at once, if it waits for a worker;
//   - when its item has ended, if a worker holds it;
//   - when its hold, its back-off or the minimum interval ends, if it waits for
//     that.
//
// A key that waits for a worker because its delay has ended before Drain is
// dispatched, too. When no such key is left, Get returns [ErrStopped]. Drain
// does not wait for that, and cannot be undone.
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

// Stop drops all waiting keys. Get returns [ErrStopped], also to callers that
// are already waiting in it. Held items may be ended as usual, or not at all.
// Stop cannot be undone.
func (q *Queue[K]) Stop() {
	q.mu.Lock()
	defer q.unlock()
	q.schedule.end(stopped, func(e *entry[K]) bool { return e.state != held })
	q.waiters.wakeAll()
}
