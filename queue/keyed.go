package queue

import (
	"context"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/homeostat/homeostat/queue/internal/keyed"
)

// Parts returns the operations that only other packages of this module need.
// They take a key instead of an item.
func (q *Queue[K]) Parts() keyed.Queue[K] { return byKey[K]{q} }

// byKey is a view of a queue whose operations take keys. A delayed addition is
// not merged with an addition without a delay, so each of them leads to a
// dispatch. retryState.laterDue is the time of the delayed addition.
type byKey[K comparable] struct{ queue *Queue[K] }

func (b byKey[K]) AddLater(key K, delay time.Duration, failed bool) bool {
	q, s := b.queue, &b.queue.schedule
	var jitter float64
	if failed {
		jitter = q.jitter()
	}
	group, hash := q.groupOf(key), s.table.hash(key)
	q.mu.Lock()
	defer q.unlock()
	if s.mode != running {
		return false
	}
	s.counters.added++
	n, e := s.table.get(key)
	if n == 0 {
		n, e = s.insert(key, hash, group)
		e.state = idle
	}
	r := s.ensureRetryState(e)
	if failed {
		s.retries.fail(r)
		delay = s.options.Backoff.delay(r.failures, jitter)
	}
	s.setLater(n, r, deadline(s.now(), delay))
	return true
}

func (b byKey[K]) Get(timed bool) (key K, waited time.Duration, err error) {
	var item Item[K]
	if err := b.queue.get(context.Background(), false, &item); err != nil {
		return key, 0, err
	}
	if timed {
		b.queue.mu.Lock()
		defer b.queue.unlock()
		if l := b.queue.schedule.leaseOf(item.lease, item.ticket); l != nil {
			waited = time.Duration(l.waited)
		}
	}
	return item.key, waited, nil
}

func (b byKey[K]) Done(key K, timed bool) (age time.Duration, ok bool) {
	b.queue.mu.Lock()
	defer b.queue.unlock()
	s := &b.queue.schedule
	n, e := s.table.get(key)
	if n == 0 || e.state != held {
		return 0, false
	}
	place := e.next
	if timed {
		age = time.Duration(s.now() - s.leases.value(place).dispatched)
	}
	s.finish(place, &ending{outcome: released})
	return age, true
}

func (b byKey[K]) Discount(key K) {
	b.queue.mu.Lock()
	defer b.queue.unlock()
	s := &b.queue.schedule
	if n, e := s.table.get(key); n != 0 && e.state == held && e.retry != 0 {
		s.retries.value(e.retry).interval = 0 // the previous interval was over when the key was dispatched
	}
}

func (b byKey[K]) Failures(key K) int {
	b.queue.mu.Lock()
	defer b.queue.unlock()
	s := &b.queue.schedule
	if n, e := s.table.get(key); n != 0 && e.retry != 0 {
		return int(s.retries.value(e.retry).failures)
	}
	return 0
}

func (b byKey[K]) Pending() (pending, began int64) {
	b.queue.mu.Lock()
	defer b.queue.unlock()
	s := &b.queue.schedule
	s.promote(s.now())
	return int64(s.lanes.ready + s.readded), s.counters.began
}

func (b byKey[K]) Draining() bool {
	b.queue.mu.Lock()
	defer b.queue.unlock()
	return b.queue.schedule.mode != running
}

func (b byKey[K]) Reopen() {
	b.queue.mu.Lock()
	defer b.queue.unlock()
	s := &b.queue.schedule
	if s.mode != running {
		return
	}
	now := s.now()
	s.opened = now
	for _, o := range slices.Clone(s.table.slots) {
		if o.entry == 0 {
			continue
		}
		e := s.table.value(o.entry)
		if r := s.retries.get(e.retry); r == nil || r.failures == 0 {
			continue
		}
		retried := e.state != held && e.pending == timer
		s.clearFailures(e)
		if retried {
			s.setPending(e, timer, now)
		}
		if e.state == delayed || e.state == idle {
			s.reschedule(o.entry, now)
		}
	}
}

func (b byKey[K]) Clock() clock.Clock { return b.queue.schedule.options.Clock }

func (b byKey[K]) Empty() <-chan struct{} {
	b.queue.mu.Lock()
	defer b.queue.unlock()
	if b.queue.emptied == nil {
		b.queue.emptied = make(chan struct{})
	}
	return b.queue.emptied
}
