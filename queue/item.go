package queue

import "time"

// An Item is a key that a worker holds. Exactly one of Done, After, Retry and
// RetryAfter ends it; later calls do nothing.
//
// Items may be copied, and ended by any goroutine.
type Item[K comparable] struct {
	queue    *Queue[K]
	key      K
	ticket   uint64
	lease    uint32
	failures uint32
}

// Key returns the key.
func (i Item[K]) Key() K { return i.key }

// Attempt returns 1, plus the number of failures in a row before.
func (i Item[K]) Attempt() int { return int(i.failures) + 1 }

// Causes returns why the key was dispatched, at most eight causes, the oldest
// first. A retry has the causes of the failed attempt as well. Returns nil after
// the end.
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
	return s.causes.list(l.causes, &s.table.at(l.entry).key)
}

// Hold delays the next dispatch of the key until d has passed or Release is
// called. It does not end the item, and adds nothing: a key that is not added is
// not dispatched at the deadline.
func (i Item[K]) Hold(d time.Duration) {
	if i.queue == nil {
		return
	}
	i.queue.mu.Lock()
	defer i.queue.unlock()
	s := &i.queue.schedule
	if l := s.leaseOf(i.lease, i.ticket); l != nil {
		s.ensureRetryState(s.table.at(l.entry)).hold = deadline(s.now(), d)
		s.counters.holds++
	}
}

// Done ends the item with success and forgets the key's failures.
func (i Item[K]) Done() { i.queue.end(i.lease, i.ticket, &ending{how: done}) }

// After ends the item with success. The key is dispatched again in d, or earlier
// if it is added, in lane Retrying.
func (i Item[K]) After(d time.Duration) {
	i.queue.end(i.lease, i.ticket, &ending{how: after, delay: d})
}

// Retry ends the item with failure. The key is dispatched again after its
// [Backoff], in lane Retrying. Only an addition with ResetBackoff brings it back
// earlier.
func (i Item[K]) Retry() {
	if i.queue != nil {
		i.queue.end(i.lease, i.ticket, &ending{how: retry, jitter: i.queue.jitter()})
	}
}

// RetryAfter ends the item with failure. The key is dispatched again after
// exactly d, without jitter, for example a server's Retry-After.
func (i Item[K]) RetryAfter(d time.Duration) {
	i.queue.end(i.lease, i.ticket, &ending{how: retryAfter, delay: d})
}

// end ends an item, which is not passed itself: copying it costs more. The zero
// item has no queue.
func (q *Queue[K]) end(place uint32, ticket uint64, with *ending) {
	if q == nil {
		return
	}
	q.mu.Lock()
	if q.schedule.leaseOf(place, ticket) != nil {
		q.schedule.finish(place, with)
	}
	q.unlock()
}
