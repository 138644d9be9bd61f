package queue

import (
	"math"
	"math/bits"
	"time"
)

// schedule decides when a key is dispatched. Queue.mu guards it, except for its
// clock and options. It does not wake waiters; Queue.unlock does.
type schedule[K comparable] struct {
	options    Options[K]
	epoch      time.Time
	mode       mode
	opened     int64  // when this process began to work on the keys; waiting times count from here
	readded    int    // number of held keys that were added again
	lastTicket uint64 // the ticket of the newest lease
	timers     timers
	lanes      lanes[K]
	table      table[K]
	leases     slab[lease]
	causes     causes
	counters   counters
	retries    retries
}

type mode uint8

const (
	running mode = iota
	draining
	stopped
)

// now returns the time since the epoch, in nanoseconds. It is never 0, because
// 0 stands for no time.
func (s *schedule[K]) now() int64 { return int64(s.options.Clock.Since(s.epoch)) + 1 }

// deadline returns the time after a delay. A negative delay counts as 0, and a
// sum that overflows becomes the largest time.
func deadline(now int64, delay time.Duration) int64 {
	if int64(delay) > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + max(int64(delay), 0)
}

// add adds a key, with its hash and its group. It does nothing unless the queue
// is running.
func (s *schedule[K]) add(key K, hash uint32, group string, a *AddOptions) {
	if s.mode != running {
		return
	}
	s.counters.added++
	if n := s.table.find(key, hash); n != 0 {
		s.merge(n, a, 0)
		return
	}
	n, e := s.insert(key, hash, group)
	now := s.now()
	e.lane = min(a.Lane, Background)
	if !a.Cause.empty() {
		s.causes.add(&e.causes, &e.key, &a.Cause)
	}
	e.note(a)
	if a.After > 0 {
		e.pending = timer
		s.delay(n, deadline(now, a.After))
		return
	}
	e.pending = demand
	s.enqueue(n, e, now)
}

// insert adds an entry for a key that has no entry yet.
func (s *schedule[K]) insert(key K, hash uint32, group string) (n uint32, e *entry[K]) {
	n, e = s.table.insert(key, hash)
	e.tag = s.lanes.enter(group, hash)
	return n, e
}

// merge adds a key that already has entry n. now is the time of the addition; 0
// means the current time.
func (s *schedule[K]) merge(n uint32, a *AddOptions, now int64) {
	e := s.table.value(n)
	if !a.Cause.empty() {
		s.causes.add(&e.causes, &e.key, &a.Cause)
	}
	if a.ResetBackoff {
		if r := s.retries.get(e.retry); r != nil && r.backoff > s.now() {
			e.marks &^= retried
		}
		s.clearFailures(e)
		if e.state == held {
			e.marks |= wasReset
		}
	}
	if e.pending != noAddition {
		s.counters.merged++
	}
	if e.state == waiting {
		if a.After <= 0 {
			e.note(a)
		}
		if a.Lane < e.lane {
			s.lanes.unlink(e)
			e.lane = a.Lane
			s.lanes.push(n, e)
		}
		return
	}
	if now == 0 {
		now = s.now()
	}
	s.mergeAddition(e, a, now)
	if e.state != held {
		s.reschedule(n, now)
	}
}

// mergeAddition merges an addition into the pending one of e. An addition
// without a delay (demand) replaces a timer. Of two timers the earlier one
// counts, unless the addition has Replace.
func (s *schedule[K]) mergeAddition(e *entry[K], a *AddOptions, now int64) {
	if r := s.retries.get(e.retry); e.pending == noAddition {
		e.lane = min(a.Lane, Background)
	} else if r == nil || r.backoff <= now {
		e.lane = min(e.lane, a.Lane)
	}
	due := deadline(now, a.After)
	switch {
	case a.After <= 0:
		if e.pending == timer && s.due(e) <= now {
			e.expire()
		}
		e.note(a)
		if e.pending != demand {
			s.setPending(e, demand, now)
		}
	case e.pending == demand:
	case e.pending == noAddition || a.Replace || due < s.due(e):
		e.note(a)
		if a.Replace {
			e.marks &^= retried
		}
		s.setPending(e, timer, due)
	}
}

// note records in the marks of e whether an addition is the caller's own. An
// addition with a delay leads to a dispatch only if its timer expires, so note
// only sets ownTimer for it.
func (e *entry[K]) note(a *AddOptions) {
	switch {
	case a.After <= 0 && !a.Own:
		e.marks |= notOwn
	case a.After > 0 && a.Own:
		e.marks |= ownTimer
	case a.After > 0:
		e.marks &^= ownTimer
	}
}

// expire records that the pending timer has expired and leads to the next
// dispatch.
func (e *entry[K]) expire() {
	if e.marks&ownTimer == 0 {
		e.marks |= notOwn
	}
}

// setPending sets the pending addition of e. e must not be in state waiting.
// Callers must call reschedule afterwards, unless a worker holds e.
func (s *schedule[K]) setPending(e *entry[K], p pending, due int64) {
	if e.state == held && (e.pending == demand) != (p == demand) {
		if p == demand {
			s.readded++
			s.counters.began++
		} else {
			s.readded--
		}
	}
	e.pending = p
	if r := s.retries.get(e.retry); r != nil {
		r.due = due
		return
	}
	s.unschedule(e)
	e.stateTime = due
}

// due returns the time of e's pending addition.
func (s *schedule[K]) due(e *entry[K]) int64 {
	if r := s.retries.get(e.retry); r != nil {
		return r.due
	}
	return e.stateTime
}

// ensureRetryState returns the retryState of e, and makes one if necessary.
func (s *schedule[K]) ensureRetryState(e *entry[K]) *retryState {
	if e.retry == 0 {
		e.retry = s.retries.take()
		s.retries.value(e.retry).due = e.stateTime
	}
	return s.retries.value(e.retry)
}

// clearFailures ends the back-off of e and forgets its failures.
func (s *schedule[K]) clearFailures(e *entry[K]) {
	if r := s.retries.get(e.retry); r != nil {
		s.retries.forget(r)
		r.backoff = 0
	}
}

// reschedule decides again whether entry n waits for a worker, for a point in
// time, or not at all. The result depends on the pending addition and on the
// ends of the back-off, the hold and the minimum interval. No worker may hold
// the entry.
func (s *schedule[K]) reschedule(n uint32, now int64) {
	e := s.table.value(n)
	due := int64(0)
	if e.pending != noAddition {
		due = s.due(e)
	}
	if r := s.retries.get(e.retry); r != nil {
		due = max(due, r.earliest())
		if r.failures == 0 && r.laterDue == 0 && r.earliest() <= now {
			s.retries.setBackingOff(r, false)
			s.retries.setSurplus(r, 0)
			s.retries.drop(e.retry)
			e.retry = 0
		}
	}
	switch {
	case due > now && (s.mode == running || s.mode == draining && e.pending == demand):
		s.delay(n, due)
	case s.mode == running && e.pending != noAddition,
		s.mode == draining && e.pending == demand:
		s.enqueue(n, e, due)
	case s.mode == running && e.retry != 0:
		s.unschedule(e)
		e.state = idle
	default:
		s.remove(n, e)
		return
	}
	s.recount(e)
}

// recount records the surplus of e: the number of its timers that do not stand
// for a delayed key. For example, the surplus is 1 if e waits for the end of
// its back-off and was not added, and also if e has two timers, because the key
// is then delayed only once. Stats subtracts the sum of all surpluses from the
// number of timers.
func (s *schedule[K]) recount(e *entry[K]) {
	r := s.retries.get(e.retry)
	if r == nil { // e has at most one timer, for a pending addition
		return
	}
	surplus := int8(0)
	if e.state == delayed {
		surplus++
	}
	if r.laterDue != 0 {
		surplus++
	}
	if (e.state == delayed || e.state == idle) && (e.pending != noAddition || r.laterDue != 0) {
		surplus--
	}
	s.retries.setSurplus(r, surplus)
}

// enqueue makes e, entry n, wait for a worker. start is the earliest time at
// which a worker could have taken it.
func (s *schedule[K]) enqueue(n uint32, e *entry[K], start int64) {
	s.unschedule(e)
	if e.pending == timer {
		e.expire()
	}
	e.state, e.stateTime = waiting, start
	s.counters.began++
	s.lanes.push(n, e)
}

// delay makes entry n wait until a point in time.
func (s *schedule[K]) delay(n uint32, due int64) {
	e := s.table.value(n)
	if e.state != delayed || e.stateTime != due {
		s.unschedule(e)
		e.state, e.stateTime = delayed, due
		s.timers.push(due, n)
	}
	r := s.retries.get(e.retry)
	s.retries.setBackingOff(r, r != nil && r.backoff == due && e.pending != noAddition)
}

// unschedule makes the timer of e stale, if e is delayed.
func (s *schedule[K]) unschedule(e *entry[K]) {
	if e.state != delayed {
		return
	}
	e.state = absent
	s.retries.setBackingOff(s.retries.get(e.retry), false)
	s.timers.expire(s.current)
}

// current reports whether the entry of t still waits for t. Otherwise t is
// stale.
func (s *schedule[K]) current(t timerNode) bool {
	if !s.table.contains(t.entry) {
		return false
	}
	e := s.table.value(t.entry)
	if e.state == delayed && e.stateTime == t.due {
		return true
	}
	r := s.retries.get(e.retry)
	return r != nil && r.laterDue == t.due
}

// promote reschedules the delayed keys whose time has come. A key has one timer
// for its state, and a second timer if it also has a delayed addition through
// byKey.
func (s *schedule[K]) promote(now int64) {
	for len(s.timers.nodes) > 0 && s.timers.nodes[0].due <= now {
		t := s.timers.pop()
		if !s.current(t) {
			s.timers.stale--
			continue
		}
		e := s.table.value(t.entry)
		if e.state != delayed || e.stateTime != t.due {
			s.retries.value(e.retry).laterDue = 0
			s.recount(e)
			s.merge(t.entry, &AddOptions{}, t.due)
			continue
		}
		e.state = absent
		s.retries.setBackingOff(s.retries.get(e.retry), false)
		s.reschedule(t.entry, now)
	}
}

// setLater records that the delayed addition of entry n through byKey is due at
// due, unless an earlier time is recorded already.
func (s *schedule[K]) setLater(n uint32, r *retryState, due int64) {
	if r.laterDue != 0 {
		s.counters.merged++
		if r.laterDue <= due {
			return
		}
		s.timers.stale++
	}
	r.laterDue = due
	s.timers.push(due, n)
	s.recount(s.table.value(n))
	s.timers.sweep(s.current)
}

// dropLater drops the delayed addition that e got through byKey, and reports
// whether there was one.
func (s *schedule[K]) dropLater(e *entry[K]) bool {
	r := s.retries.get(e.retry)
	if r == nil || r.laterDue == 0 {
		return false
	}
	r.laterDue = 0
	s.recount(e)
	s.timers.expire(s.current)
	return true
}

// remove deletes e, entry n, with all that is stored for it. No worker may hold
// it.
func (s *schedule[K]) remove(n uint32, e *entry[K]) {
	s.unschedule(e)
	s.dropLater(e)
	if e.state == waiting {
		s.lanes.unlink(e)
	}
	s.causes.drop(e.causes)
	if r := s.retries.get(e.retry); r != nil { // happens only while the queue ends, and no other field is read then
		s.retries.forget(r)
		s.retries.setSurplus(r, 0)
	}
	hash := e.tag
	if s.options.Group != nil {
		hash = s.table.hash(e.key)
		s.lanes.exit(e.tag)
	}
	s.table.remove(n, hash)
}

// end changes the mode to m. It removes the entries for which drop returns
// true, and keeps only the timers of the additions that stay.
func (s *schedule[K]) end(m mode, drop func(*entry[K]) bool) {
	s.mode = m
	var kept timers
	for n, top := uint32(1), s.table.top; n <= top && s.table.live > 0; n++ {
		e := s.table.value(n)
		switch {
		case e.state == absent:
		case drop(e):
			s.remove(n, e)
		default:
			s.dropLater(e)
			if e.state == delayed {
				kept.push(e.stateTime, n)
			}
		}
	}
	s.timers = kept
}

// mustWait reports whether a drained queue must still dispatch keys that do not
// wait for a worker yet. Such keys were added, and are held by a worker, or
// delayed by a hold, a minimum interval or a back-off.
func (s *schedule[K]) mustWait() bool { return s.readded > 0 || len(s.timers.nodes) > s.timers.stale }

const waitBuckets = 15

// counters holds the numbers of Stats that cannot be read from elsewhere.
type counters struct {
	added, merged, holds uint64
	began                int64 // number of times that a key became pending
	lanes                [laneCount]struct {
		waited int64
		waits  [waitBuckets + 1]uint64
	}
}

// recordWait counts a dispatch from lane l. wait is the time that the key had
// waited.
func (c *counters) recordWait(l Lane, wait int64) {
	wait = max(wait, 0)
	bucket := (bits.Len64(uint64(wait)>>10) + 1) / 2 //nolint:gosec // not negative
	c.lanes[l].waited += wait
	c.lanes[l].waits[min(bucket, waitBuckets)]++
}
