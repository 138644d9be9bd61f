package queue

import "time"

// An Item is a key in the hands of a worker. Exactly one of Done, After, Retry
// and RetryAfter ends it; what comes after the end does nothing.
//
// Items may be copied and ended by another goroutine than the one that got them.
type Item[K comparable] struct {
	queue    *Queue[K]
	key      K
	number   uint64
	turn     uint32
	failures uint32
}

// Key returns the key.
func (i Item[K]) Key() K { return i.key }

// Attempt returns 1, and one more for each failure in a row before.
func (i Item[K]) Attempt() int { return int(i.failures) + 1 }

// Causes returns why the key was handed out, at most eight of them, the
// oldest first. A retry has the causes of the turn that failed as well. It is
// nil after the end.
func (i Item[K]) Causes() []Cause {
	if i.queue == nil {
		return nil
	}
	i.queue.mu.Lock()
	defer i.queue.mu.Unlock()
	t := i.queue.turnOf(i.turn, i.number)
	if t == nil {
		return nil
	}
	return i.queue.causes.list(t.causes, &i.queue.at(t.entry).key)
}

// Hold keeps the key back when the item has ended: it is not handed out again
// before d has passed or Release is called. It does not end the item, and adds
// nothing: a key that nothing asks for is not handed out at the deadline.
func (i Item[K]) Hold(d time.Duration) {
	if i.queue == nil {
		return
	}
	i.queue.mu.Lock()
	defer i.queue.mu.Unlock()
	if t := i.queue.turnOf(i.turn, i.number); t != nil {
		i.queue.remember(i.queue.at(t.entry)).hold = until(i.queue.now(), int64(d))
		i.queue.counters.holds++
	}
}

// Done ends the item with success. Failures are forgotten.
func (i Item[K]) Done() { i.queue.end(i.turn, i.number, &ending{how: done}) }

// After ends the item with success and looks at the key again in d, or earlier
// if it is added. It comes back in lane Retrying.
func (i Item[K]) After(d time.Duration) {
	i.queue.end(i.turn, i.number, &ending{how: after, delay: d})
}

// Retry ends the item with failure. The key comes back by [Backoff] in lane
// Retrying; of what is added until then, only an addition with ResetBackoff brings it
// back earlier.
func (i Item[K]) Retry() {
	if i.queue != nil {
		i.queue.end(i.turn, i.number, &ending{how: retry, jitter: i.queue.jitter()})
	}
}

// RetryAfter is Retry with the delay that, for example, a server has asked for:
// not shorter, not longer, not drawn.
func (i Item[K]) RetryAfter(d time.Duration) {
	i.queue.end(i.turn, i.number, &ending{how: retryAfter, delay: d})
}

// An ending says how a turn has ended.
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

// end ends an item, which is not handed down: to copy it costs more. The zero
// item has no queue.
func (q *Queue[K]) end(place uint32, number uint64, with *ending) {
	if q == nil {
		return
	}
	q.mu.Lock()
	if t := q.turnOf(place, number); t != nil {
		q.finish(place, t, with)
	}
	q.mu.Unlock()
}

// turnOf returns the turn of an item, nil after its end.
func (q *Queue[K]) turnOf(place uint32, number uint64) *turn {
	if !q.turns.has(place) {
		return nil
	}
	if t := q.turns.at(place); t.number == number {
		return t
	}
	return nil
}

// finish ends a turn.
func (q *Queue[K]) finish(place uint32, t *turn, with *ending) {
	n, past := t.entry, t.causes
	q.turns.drop(place)
	e := q.at(n)
	if e.pending == demand {
		q.again--
		q.counters.began-- // it begins to be pending once, now or later
	}
	e.state, e.next = absent, 0
	if with.how == done && e.memory == 0 && e.pending != timer { // no need to know what time it is
		q.causes.drop(past)
		if e.pending == demand && q.mode != stopped {
			q.enqueue(n, e, e.at)
		} else {
			q.discard(n, e)
		}
		q.reportEmpty()
		return
	}
	now := q.now()
	switch with.how {
	case done:
		q.forgive(e)
	case after:
		q.forgive(e)
		q.urge(e, &AddOptions{Lane: Retrying, After: with.delay}, now)
	case retry, retryAfter:
		past = q.fail(e, past, with, now)
	case released:
	}
	q.causes.drop(past)
	q.settle(n, now)
	q.reportEmpty()
}

// fail makes e back off, unless it was added with Reset during its turn. It
// returns the causes that are left over.
func (q *Queue[K]) fail(e *record[K], past uint32, with *ending, now int64) uint32 {
	if e.reset {
		q.forgive(e)
		if e.pending == demand {
			q.counters.retried++
			return past
		}
	}
	m := q.remember(e)
	q.failed(m)
	delay := with.delay
	if with.how == retry {
		delay = q.options.Backoff.after(m.failures, with.jitter)
	}
	m.backoff = until(now, int64(delay))
	if e.pending != demand {
		q.expect(e, timer, m.backoff)
	}
	e.lane = Retrying
	later := e.causes
	e.causes = past
	for _, c := range q.causes.list(later, &e.key) {
		q.causes.add(&e.causes, &e.key, &c)
	}
	return later
}

// reportEmpty tells those who wait for the end of a drained queue.
func (q *Queue[K]) reportEmpty() {
	if q.mode == running || q.ready > 0 || q.again > 0 {
		return
	}
	q.rouseAll()
	if q.turns.live == 0 && q.emptied != nil {
		close(q.emptied)
		q.emptied = nil
	}
}
