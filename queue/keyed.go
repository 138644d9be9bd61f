package queue

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/homeostat/homeostat/queue/internal/keyed"
)

// ByKey returns the operations that package queue/workqueue is made of.
func (q *Queue[K]) ByKey() keyed.Queue[K] { return byKey[K]{q} }

// byKey is a queue without items. A delayed addition is not merged with one
// without delay: both lead to a dispatch. The time of the delayed one is
// memory.later.
type byKey[K comparable] struct{ *Queue[K] }

func (q byKey[K]) AddLater(key K, d time.Duration, failed bool) bool {
	delay := int64(d)
	var jitter float64
	if failed {
		jitter = q.jitter()
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
	q.merge(n, &AddOptions{}, due)
}

// isLater reports whether a timer is that of the delayed addition of e.
func (q *Queue[K]) isLater(e *record[K], t timerNode) bool {
	m := q.recall(e)
	return m != nil && m.later == t.due
}

func (q byKey[K]) Get(timed bool) (key K, waited time.Duration, err error) {
	var item Item[K]
	if err := q.get(context.Background(), false, &item); err != nil {
		return key, 0, err
	}
	if timed {
		q.mu.Lock()
		defer q.mu.Unlock()
		if t := q.turnOf(item.turn, item.number); t != nil {
			waited = time.Duration(t.waited)
		}
	}
	return item.key, waited, nil
}

func (q byKey[K]) Done(key K, timed bool) (age time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.find(key, q.hash(key))
	if n == 0 || q.at(n).state != held {
		return 0, false
	}
	number := q.at(n).next
	t := q.turns.at(number)
	if timed {
		age = time.Duration(q.now() - t.since)
	}
	q.finish(number, t, &ending{how: released})
	return age, true
}

func (q byKey[K]) Failures(key K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.find(key, q.hash(key)); n != 0 {
		if m := q.recall(q.at(n)); m != nil {
			return int(m.failures)
		}
	}
	return 0
}

func (q byKey[K]) Pending() (pending, began int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.promoteNow()
	return int64(q.ready + q.again), q.counters.began
}

func (q byKey[K]) Draining() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mode != running
}

func (q byKey[K]) Clock() clock.Clock { return q.options.Clock }

func (q byKey[K]) Empty() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.emptied == nil {
		q.emptied = make(chan struct{})
	}
	empty := q.emptied
	q.reportEmpty()
	return empty
}
