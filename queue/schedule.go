package queue

import "math"

// This file decides when a key is handed out. All of it runs under Queue.mu.

// add is AddWithOptions, at the time now; 0 if nobody has looked at the clock.
func (q *Queue[K]) add(key K, hash uint32, group string, a *AddOptions, now int64) {
	if q.mode != running {
		return
	}
	q.counters.added++
	n, place := q.seek(key, hash)
	if n != 0 {
		q.merge(n, a, now)
		return
	}
	n, e := q.insert(key, hash, place)
	e.tag = q.enter(group, hash)
	now = q.clock(now)
	e.lane = min(a.Lane, Background)
	q.causes.add(&e.causes, &e.key, &a.Cause)
	if a.After > 0 {
		e.pending = timer
		q.delay(n, until(now, int64(a.After)))
		return
	}
	e.pending = demand
	q.enqueue(n, e, now)
}

// clock is now or, if nobody has looked at the clock yet, what it says.
func (q *Queue[K]) clock(now int64) int64 {
	if now == 0 {
		q.timely.Store(true)
		now = q.now()
	}
	return now
}

// merge is add for a key that is known already.
func (q *Queue[K]) merge(n uint32, a *AddOptions, now int64) {
	e := q.at(n)
	q.causes.add(&e.causes, &e.key, &a.Cause)
	if a.ResetBackoff {
		q.forgive(e)
		e.reset = e.reset || e.state == held
	}
	if e.pending != nothing {
		q.counters.merged++
	}
	if e.state == waiting {
		if now != 0 {
			q.timely.Store(false)
		}
		if a.Lane < e.lane {
			q.unlink(e)
			e.lane = a.Lane
			q.push(n, e)
		}
		return
	}
	now = q.clock(now)
	q.urge(e, a, now)
	if e.state != held {
		q.settle(n, now)
	}
}

// urge merges an addition into what is pending for e: a demand beats a timer,
// the earlier of two timers wins.
func (q *Queue[K]) urge(e *record[K], a *AddOptions, now int64) {
	if m := q.recall(e); e.pending == nothing {
		e.lane = min(a.Lane, Background)
	} else if m == nil || m.backoff <= now {
		e.lane = min(e.lane, a.Lane)
	}
	due := until(now, int64(a.After))
	switch {
	case e.pending == demand:
	case a.After <= 0:
		q.expect(e, demand, now)
	case e.pending == nothing || a.Replace || due < q.due(e):
		q.expect(e, timer, due)
	}
}

// settle puts entry n, which no worker holds, where it belongs by what is
// pending for it and by what it has to wait for.
func (q *Queue[K]) settle(n uint32, now int64) {
	e := q.at(n)
	then := int64(0)
	if e.pending != nothing {
		then = q.due(e)
	}
	if m := q.recall(e); m != nil {
		then = max(then, m.gate())
		if m.failures == 0 && m.later == 0 && m.gate() <= now {
			q.unbacked(e)
			q.memories.drop(e.memory)
			e.memory = 0
		}
	}
	switch {
	case q.mode == running && then > now:
		q.delay(n, then)
	case q.mode == running && e.pending != nothing,
		q.mode == draining && e.pending == demand && then <= now:
		q.enqueue(n, e, then)
	case q.mode == running && e.memory != 0:
		q.unschedule(e)
		e.state = idle
	default:
		q.discard(n, e)
	}
}

// enqueue makes e, entry n, wait for a worker; it could have had one since then.
func (q *Queue[K]) enqueue(n uint32, e *record[K], since int64) {
	q.unschedule(e)
	e.state, e.at = waiting, since
	q.counters.began++
	q.push(n, e)
	q.wake()
}

// delay makes entry n wait until then.
func (q *Queue[K]) delay(n uint32, then int64) {
	e := q.at(n)
	if e.state == delayed && e.at == then {
		q.unbacked(e)
		q.backed(e)
		return
	}
	q.unschedule(e)
	e.state, e.at = delayed, then
	q.backed(e)
	q.timers.push(then, n)
	q.alarm(then)
}

// backed counts e if it is delayed by its back-off; unbacked is the end of that.
func (q *Queue[K]) backed(e *record[K]) {
	if m := q.recall(e); m != nil && m.backoff == e.at && e.pending != nothing {
		m.backing = true
		q.counters.backing++
	}
}

func (q *Queue[K]) unbacked(e *record[K]) {
	if m := q.recall(e); m != nil && m.backing {
		m.backing = false
		q.counters.backing--
	}
}

// unschedule leaves the timer of e to be skipped.
func (q *Queue[K]) unschedule(e *record[K]) {
	if e.state != delayed {
		return
	}
	e.state = absent
	q.unbacked(e)
	q.timers.stale++
	q.timers.sweep(q.valid)
}

// valid tells whether a timer is the one that its entry waits for.
func (q *Queue[K]) valid(t timerNode) bool {
	if !q.has(t.entry) {
		return false
	}
	e := q.at(t.entry)
	return e.state == delayed && e.at == t.due || q.isLater(e, t)
}

// promote settles the delayed keys whose time has come. Each timer stands for one thing: if a delayed key has a delayed
// addition at the same time, that has a timer of its own.
func (q *Queue[K]) promote(now int64) {
	for len(q.timers.nodes) > 0 && q.timers.nodes[0].due <= now {
		t := q.timers.pop()
		if !q.valid(t) {
			q.timers.stale--
			continue
		}
		e := q.at(t.entry)
		if e.state != delayed || e.at != t.due {
			q.endLater(t.entry, q.recall(e))
			continue
		}
		e.state = absent
		q.unbacked(e)
		q.settle(t.entry, now)
	}
}

// discard forgets everything about e, entry n, which no worker holds.
func (q *Queue[K]) discard(n uint32, e *record[K]) {
	q.unschedule(e)
	q.dropLater(e)
	if e.state == waiting {
		q.unlink(e)
	}
	if e.causes != 0 {
		q.causes.drop(e.causes)
	}
	if m := q.recall(e); m != nil {
		q.forget(m)
		q.memories.drop(e.memory)
	}
	q.remove(n, q.exit(e))
}

// until is a time that far in the future, or the end of time.
func until(now, delay int64) int64 {
	if delay > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + max(delay, 0)
}
