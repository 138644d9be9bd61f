package queue

import (
	"context"
	"runtime"
)

// Get returns the next key, and waits until there is one.
//
// Errors: [ErrStopped], or ctx.Err() once ctx has ended, even if keys wait.
func (q *Queue[K]) Get(ctx context.Context) (item Item[K], err error) {
	err = q.get(ctx, true, &item)
	return item, err
}

// get is Get. While a drained queue is empty, a patient caller waits for held
// keys that were added again. The item is filled in where it is wanted: copies
// of what has just been written cost more than all else.
func (q *Queue[K]) get(ctx context.Context, patient bool, item *Item[K]) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := q.now() // outside the lock, to hold that for a shorter time
	q.mu.Lock()
	if q.ready == 0 || q.gate != nil {
		return q.await(ctx, now, patient, item)
	}
	q.promote(now)
	q.handOut(now, item)
	q.mu.Unlock()
	return nil
}

// await is the rest of get, for when no key can be had at once. It unlocks the
// queue.
func (q *Queue[K]) await(ctx context.Context, now int64, patient bool, item *Item[K]) error {
	defer q.mu.Unlock()
	parked, yielded := q.gate == nil, false
	for ; ; now = q.now() {
		q.promote(now)
		var err error
		switch {
		case q.ready > 0 && parked:
			q.handOut(now, item)
			q.pass()
			return nil
		case q.ready > 0:
			parked = true
			err = q.park(ctx)
		case q.mode == stopped, q.mode == draining && (q.again == 0 || !patient):
			return ErrStopped
		case !yielded:
			yielded = true
			q.yield()
		default:
			parked = q.gate == nil
			err = q.sleep(ctx, now)
		}
		if err != nil {
			q.pass()
			return err
		}
	}
}

// yield lets others run, with the lock released. Who adds keys one by one often
// adds the next one then, which costs less than to sleep and be woken.
func (q *Queue[K]) yield() {
	q.mu.Unlock()
	defer q.mu.Lock()
	runtime.Gosched()
}

// park calls the hook of simulators, with the lock released.
func (q *Queue[K]) park(ctx context.Context) error {
	q.mu.Unlock()
	defer q.mu.Lock()
	q.gate(ctx)
	return ctx.Err()
}

// handOut begins a turn of the key whose turn it is.
func (q *Queue[K]) handOut(now int64, item *Item[K]) {
	n, e := q.pop()
	number := q.turns.take()
	q.numbers++
	t := q.turns.at(number)
	t.entry, t.causes, t.number, t.since, t.waited = n, e.causes, q.numbers, now, now-e.at
	item.queue, item.key, item.turn, item.number = q, e.key, number, q.numbers
	q.counters.waited(e.lane, now-e.at)
	e.causes, e.reset, e.state, e.pending = 0, false, held, nothing
	e.at, e.next, e.prev = 0, number, 0
	if m := q.recall(e); m != nil {
		item.failures = m.failures
	}
	if q.options.MinInterval > 0 {
		m := q.remember(e)
		m.due, m.rest = 0, until(now, int64(q.options.MinInterval))
	}
}
