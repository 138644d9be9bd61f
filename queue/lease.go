package queue

import "time"

// lease is one dispatch of a key.
type lease struct {
	entry  uint32
	causes uint32
	ticket uint64 // never used twice; 0 if the lease has ended
	since  int64
	waited int64
}

// ending says how a lease ends.
type ending struct {
	how    how
	delay  time.Duration
	jitter float64 // in [0, 1)
}

type how uint8

const (
	done how = iota
	after
	retry
	retryAfter
	released // neither success nor failure: failures are remembered
)

// dispatch leases the next key; there must be one. The item is filled in where
// it is wanted: a copy of what has just been written costs more than all else.
func (s *schedule[K]) dispatch(now int64, item *Item[K]) {
	n, e := s.lanes.pop()
	place := s.leases.take()
	s.lastTicket++
	l := s.leases.at(place)
	l.entry, l.causes, l.ticket, l.since, l.waited = n, e.causes, s.lastTicket, now, now-e.at
	item.key, item.lease, item.ticket = e.key, place, s.lastTicket
	s.counters.waited(e.lane, now-e.at)
	e.causes, e.reset, e.state, e.pending = 0, false, held, nothing
	e.at, e.next, e.prev = 0, place, 0
	if r := s.retries.of(e.retry); r != nil {
		item.failures = r.failures
	}
	if s.options.MinInterval > 0 {
		r := s.ensureRetryState(e)
		r.due, r.interval = 0, deadline(now, s.options.MinInterval)
	}
}

// leaseOf returns the lease of an item, nil after its end.
func (s *schedule[K]) leaseOf(place uint32, ticket uint64) *lease {
	if s.leases.has(place) {
		if l := s.leases.at(place); l.ticket == ticket {
			return l
		}
	}
	return nil
}

// finish ends the lease at a place.
func (s *schedule[K]) finish(place uint32, with *ending) {
	l := s.leases.at(place)
	n, past := l.entry, l.causes
	s.leases.drop(place)
	e := s.table.at(n)
	if e.pending == demand {
		s.readded--
		s.counters.began-- // enqueue counts it again
	}
	e.state, e.next = absent, 0
	if with.how == done && e.retry == 0 && e.pending != timer { // the time does not matter
		s.causes.drop(past)
		if e.pending == demand && s.mode != stopped {
			s.enqueue(n, e, e.at)
		} else {
			s.remove(n, e)
		}
		return
	}
	now := s.now()
	switch with.how {
	case done:
		s.clearFailures(e)
	case after:
		s.clearFailures(e)
		s.mergeAddition(e, &AddOptions{Lane: Retrying, After: with.delay}, now)
	case retry, retryAfter:
		past = s.fail(e, past, with, now)
	case released:
	}
	s.causes.drop(past)
	s.reschedule(n, now)
}

// fail makes e back off, unless it was added with ResetBackoff while it was
// held. It returns the causes that are left over.
func (s *schedule[K]) fail(e *entry[K], past uint32, with *ending, now int64) (rest uint32) {
	if e.reset {
		s.clearFailures(e)
		if e.pending == demand {
			s.retries.failed++
			return past
		}
	}
	r := s.ensureRetryState(e)
	s.retries.fail(r)
	delay := with.delay
	if with.how == retry {
		delay = s.options.Backoff.after(r.failures, with.jitter)
	}
	r.backoff = deadline(now, delay)
	if e.pending != demand {
		s.setPending(e, timer, r.backoff)
	}
	e.lane = Retrying
	rest, e.causes = e.causes, past
	for _, c := range s.causes.list(rest, &e.key) {
		s.causes.add(&e.causes, &e.key, &c)
	}
	return rest
}
