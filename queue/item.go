package queue

import (
	"context"
	"runtime"
	"time"
)

// An Item is a key that a worker holds. Exactly one of Done, After, Retry and
// RetryAfter ends it; later calls have no effect. A key whose item is never
// ended is not dispatched again.
//
// Items may be copied, and any goroutine may end them. The zero Item counts as
// ended.
type Item[K comparable] struct {
	queue    *Queue[K]
	key      K
	ticket   uint64
	lease    uint32
	failures uint32
}

// Key returns the key, even after the item has ended.
func (i Item[K]) Key() K { return i.key }

// Attempt returns 1 plus the number of failures in a row before this dispatch.
// For example, it is 3 after two failures. A later Forget does not change it.
func (i Item[K]) Attempt() int { return int(i.failures) + 1 }

// Causes returns why the key was dispatched: at most eight causes, oldest
// first. A retry also has the causes of the failed attempt. The caller owns the
// slice. It returns nil once the item has ended, or if no addition gave a
// cause.
func (i Item[K]) Causes() []Cause {
	if i.queue == nil {
		return nil
	}
	i.queue.mu.Lock()
	defer i.queue.unlock()
	s := &i.queue.schedule
	l := s.leaseOf(i.lease, i.ticket)
	if l == nil {
		return nil
	}
	return s.causes.list(l.causes, &s.table.value(l.entry).key)
}

// Own reports whether every addition that led to the dispatch was marked with
// [AddOptions].Own. For example, it is false if the event of the caller's own
// write was merged with a change by another client. A timer that has expired
// counts as the addition that set it.
//
// The timer of [Item.After] is not own. It counts only if it expires before the
// key is added without a delay. A retry is not own, either, even if the key was
// added with Own during the failed attempt or the back-off. A retry does not
// count if its timer was replaced or cancelled, or if an addition with
// ResetBackoff has ended the back-off early. Own returns false once the item has
// ended.
func (i Item[K]) Own() bool {
	if i.queue == nil {
		return false
	}
	i.queue.mu.Lock()
	defer i.queue.unlock()
	l := i.queue.schedule.leaseOf(i.lease, i.ticket)
	return l != nil && l.isOwn
}

// Hold delays the next dispatch of the key until d has passed since the call,
// or until Release is called. If Hold is called repeatedly, the last call
// counts. Hold neither ends the item nor adds the key. So when the hold ends,
// the key is dispatched only if there is another reason: it was added, or the
// item ended with After, Retry or RetryAfter. Hold has no effect once the item
// has ended. A key that is also backing off is dispatched when both the hold
// and the back-off have ended.
func (i Item[K]) Hold(d time.Duration) {
	if i.queue == nil {
		return
	}
	i.queue.mu.Lock()
	defer i.queue.unlock()
	s := &i.queue.schedule
	if l := s.leaseOf(i.lease, i.ticket); l != nil {
		s.ensureRetryState(s.table.value(l.entry)).hold = deadline(s.now(), d)
		s.counters.holds++
	}
}

// Done ends the item with success and forgets the key's failures. The key is
// dispatched again only if it was added while it was held, or if it is added
// later.
func (i Item[K]) Done() { i.queue.end(i.lease, i.ticket, &ending{outcome: done}) }

// After ends the item with success and forgets the key's failures. The key is
// dispatched again after d, in lane Retrying, or earlier if it is added. A d of
// zero or less means at once.
func (i Item[K]) After(d time.Duration) {
	i.queue.end(i.lease, i.ticket, &ending{outcome: after, delay: d})
}

// Retry ends the item with failure. The key is dispatched again after its
// [Backoff], in lane Retrying. Additions do not end the back-off unless they
// have ResetBackoff. This includes additions that were made while the key was
// held.
func (i Item[K]) Retry() {
	if i.queue != nil {
		i.queue.end(i.lease, i.ticket, &ending{outcome: retry, jitter: i.queue.jitter()})
	}
}

// RetryAfter ends the item with failure. The key backs off for exactly d,
// without jitter, and is then dispatched again, in lane Retrying. For example,
// d may be the delay that a server requests in its Retry-After header. The
// failure is counted, so a later Retry waits longer.
func (i Item[K]) RetryAfter(d time.Duration) {
	i.queue.end(i.lease, i.ticket, &ending{outcome: retryAfter, delay: d})
}

// end ends the item whose lease has the number place and this ticket. It does
// nothing if the item has ended already. The item itself is not a parameter,
// because copying it costs more. q is nil for the zero Item.
func (q *Queue[K]) end(place uint32, ticket uint64, e *ending) {
	if q == nil {
		return
	}
	q.mu.Lock()
	if q.schedule.leaseOf(place, ticket) != nil {
		q.schedule.finish(place, e)
	}
	q.unlock()
}

// ending describes how a worker ended an item.
type ending struct {
	outcome outcome
	delay   time.Duration
	jitter  float64 // a random number in [0, 1)
}

type outcome uint8

const (
	done outcome = iota
	after
	retry
	retryAfter
	released // neither a success nor a failure; earlier failures stay recorded
)

// Get waits for the next key and returns it. The caller holds the key until it
// ends the item. Any number of goroutines may wait at the same time.
//
// Get returns [ErrStopped] if the queue dispatches no more keys. Once ctx has
// ended, it returns ctx.Err(), even if keys are waiting.
func (q *Queue[K]) Get(ctx context.Context) (item Item[K], err error) {
	err = q.get(ctx, true, &item)
	return item, err
}

// get implements Get. If the queue is drained and no key waits for a worker, a
// patient caller waits for the keys that were added and are still held or
// delayed. A caller that is not patient gets [ErrStopped] at once.
func (q *Queue[K]) get(ctx context.Context, patient bool, item *Item[K]) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := &q.schedule
	now := s.now() // before q.mu is locked, to hold it for a shorter time
	q.mu.Lock()
	defer q.unlock()
	admitted, yielded := q.gate == nil, false
	for ; ; now = s.now() {
		s.promote(now)
		var err error
		switch {
		case s.lanes.ready > 0 && admitted:
			item.queue = q
			s.dispatch(now, item)
			return nil
		case s.lanes.ready > 0:
			admitted = true
			err = q.passGate(ctx)
		case s.mode == stopped, s.mode == draining && (!patient || !s.mustWait()):
			return ErrStopped
		case !yielded:
			yielded = true
			q.yield()
		default:
			admitted = q.gate == nil
			err = q.waiters.wait(ctx, &q.mu, now, s.timers.next())
		}
		if err != nil {
			return err
		}
	}
}

// yield lets other goroutines run, with mu released. A producer often adds its
// next key during the yield. To take that key at once costs less than to go to
// sleep and be woken.
func (q *Queue[K]) yield() {
	q.unlock()
	defer q.mu.Lock()
	runtime.Gosched()
}

// passGate calls the hook of a simulator, with mu released. Until it returns,
// the caller counts as woken. So notify does not wake a second waiter for the
// same key.
func (q *Queue[K]) passGate(ctx context.Context) error {
	q.waiters.waking++
	q.unlock()
	defer func() {
		q.mu.Lock()
		q.waiters.waking--
	}()
	q.gate(ctx)
	return ctx.Err()
}

// dispatch leases the next key and writes it to item. There must be a waiting
// key. Returning an item instead would copy what was just written, and that
// costs more than the rest of the dispatch.
func (s *schedule[K]) dispatch(now int64, item *Item[K]) {
	n, e := s.lanes.pop()
	place := s.leases.take()
	s.lastTicket++
	l := s.leases.value(place)
	l.entry, l.causes, l.ticket, l.dispatched, l.waited = n, e.causes, s.lastTicket, now, s.waitOf(e, now)
	l.isOwn = e.marks&(notOwn|retried) == 0
	item.key, item.lease, item.ticket = e.key, place, s.lastTicket
	s.counters.recordWait(e.lane, l.waited)
	e.causes, e.marks, e.state, e.pending = 0, 0, held, noAddition
	e.stateTime, e.next = 0, place
	if r := s.retries.get(e.retry); r != nil {
		item.failures = r.failures
	}
	if s.options.MinInterval > 0 {
		r := s.ensureRetryState(e)
		r.due, r.interval = 0, deadline(now, s.options.MinInterval)
	}
	s.recount(e)
}

// waitOf returns how long the key of e has waited for a worker of this process.
// See schedule.opened.
func (s *schedule[K]) waitOf(e *entry[K], now int64) int64 { return now - max(e.stateTime, s.opened) }

// leaseOf returns the lease of an item, or nil if the item has ended.
func (s *schedule[K]) leaseOf(place uint32, ticket uint64) *lease {
	if s.leases.contains(place) {
		if l := s.leases.value(place); l.ticket == ticket {
			return l
		}
	}
	return nil
}

// finish ends a lease, and schedules the next dispatch of its key if the key
// needs one.
func (s *schedule[K]) finish(place uint32, end *ending) {
	l := s.leases.value(place)
	n, leaseCauses := l.entry, l.causes
	s.leases.drop(place)
	e := s.table.value(n)
	if e.pending == demand {
		s.readded--
		s.counters.began-- // enqueue counts it again
	}
	e.state = absent
	if end.outcome == done && e.retry == 0 && e.pending != timer { // no time is compared, so the clock is not read
		s.causes.drop(leaseCauses)
		if e.pending == demand && s.mode != stopped {
			s.enqueue(n, e, e.stateTime)
		} else {
			s.remove(n, e)
		}
		return
	}
	now := s.now()
	switch end.outcome {
	case done:
		s.clearFailures(e)
	case after:
		s.clearFailures(e)
		s.mergeAddition(e, &AddOptions{Lane: Retrying, After: end.delay}, now)
	case retry, retryAfter:
		leaseCauses = s.fail(e, leaseCauses, end, now)
	case released:
	}
	s.causes.drop(leaseCauses)
	s.reschedule(n, now)
}

// fail makes e back off, unless it was added with ResetBackoff and without a
// delay while it was held. failed is the list of the causes of the failed
// attempt. They are also causes of the retry. fail returns the list of causes
// that is no longer needed, for the caller to drop.
func (s *schedule[K]) fail(e *entry[K], failed uint32, end *ending, now int64) (rest uint32) {
	if e.marks&wasReset != 0 {
		s.clearFailures(e)
		if e.pending == demand {
			s.retries.failed++
			return failed
		}
	}
	r := s.ensureRetryState(e)
	s.retries.fail(r)
	delay := end.delay
	if end.outcome == retry {
		delay = s.options.Backoff.delay(r.failures, end.jitter)
	}
	r.backoff = deadline(now, delay)
	e.marks |= retried
	if e.pending != demand {
		e.marks &^= ownTimer
		s.setPending(e, timer, r.backoff)
	}
	e.lane = Retrying
	rest, e.causes = e.causes, failed
	for _, c := range s.causes.list(rest, &e.key) {
		s.causes.add(&e.causes, &e.key, &c)
	}
	return rest
}
