package queue

// This file is for the adapter to client-go's workqueue, where a delayed addition is not merged with one without delay:
// both lead to a dispatch. The time of the delayed one is memory.later.

// addLater adds key after delay, whatever is added until then. Of two such additions the earlier counts. If failed, it
// is a failure of key, and the delay its back-off. It reports false after Drain and Stop.
func (q *Queue[K]) addLater(key K, delay int64, failed bool) bool {
	var jitter float64
	if failed {
		jitter = q.options.Backoff.Rand()
	}
	var group string
	if q.options.Group != nil {
		group = q.options.Group(key)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mode != running {
		return false
	}
	q.counters.added++
	hash := q.hash(key)
	n, place := q.seek(key, hash)
	if n == 0 {
		var e *record[K]
		n, e = q.insert(key, hash, place)
		e.tag = q.enter(group, hash)
		e.state = idle
	}
	m := q.remember(q.at(n))
	if failed {
		q.failed(m)
		delay = int64(q.options.Backoff.after(m.failures, jitter))
	}
	q.setLater(n, m, until(q.now(), delay))
	return true
}

// setLater sets the time of the delayed addition of entry n, unless it has an earlier one.
func (q *Queue[K]) setLater(n uint32, m *memory, due int64) {
	if m.later != 0 {
		q.counters.merged++
		if m.later <= due {
			return
		}
		q.timers.stale++
	}
	m.later = due
	q.timers.push(due, n)
	q.timers.sweep(q.valid)
	q.alarm(due)
}

// dropLater forgets the delayed addition of e and reports whether there was one.
func (q *Queue[K]) dropLater(e *record[K]) bool {
	m := q.recall(e)
	if m == nil || m.later == 0 {
		return false
	}
	m.later = 0
	q.timers.stale++
	q.timers.sweep(q.valid)
	return true
}

// endLater adds the key of entry n, since the time of its delayed addition has come.
func (q *Queue[K]) endLater(n uint32, m *memory) {
	due := m.later
	m.later = 0
	q.merge(n, &Addition{}, due)
}

// isLater reports whether a timer is that of the delayed addition of e.
func (q *Queue[K]) isLater(e *record[K], t timerNode) bool {
	m := q.recall(e)
	return m != nil && m.later == t.due
}
