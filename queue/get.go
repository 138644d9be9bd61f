package queue

import (
	"context"
	"runtime"
)

// Get returns the next key, and waits until there is one.
//
// Errors: [ErrStopped], or ctx.Err() once ctx has ended, even if keys wait.
func (q *Queue[K]) Get(ctx context.Context) (Item[K], error) { return q.get(ctx, true) }

// get is Get. While a drained queue is empty, a patient caller waits for held
// keys that were added again.
func (q *Queue[K]) get(ctx context.Context, patient bool) (Item[K], error) {
	if err := ctx.Err(); err != nil {
		return Item[K]{}, err
	}
	now := q.now() // outside the lock, to hold that for a shorter time
	q.mu.Lock()
	if q.ready == 0 || q.options.BeforeGet != nil {
		return q.await(ctx, now, patient)
	}
	q.promote(now)
	item := q.handOut(now)
	q.mu.Unlock()
	return item, nil
}

// await is the rest of get, for when no key can be had at once. It unlocks the
// queue.
func (q *Queue[K]) await(ctx context.Context, now int64, patient bool) (Item[K], error) {
	defer q.mu.Unlock()
	parked, yielded := q.options.BeforeGet == nil, false
	for ; ; now = q.now() {
		q.promote(now)
		var err error
		switch {
		case q.ready > 0 && parked:
			item := q.handOut(now)
			q.pass()
			return item, nil
		case q.ready > 0:
			parked = true
			err = q.park(ctx)
		case q.mode == stopped, q.mode == draining && (q.again == 0 || !patient):
			return Item[K]{}, ErrStopped
		case !yielded:
			yielded = true
			q.yield()
		default:
			parked = q.options.BeforeGet == nil
			err = q.sleep(ctx, now)
		}
		if err != nil {
			q.pass()
			return Item[K]{}, err
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
	q.options.BeforeGet(ctx)
	return ctx.Err()
}

// handOut begins a turn of the key whose turn it is.
func (q *Queue[K]) handOut(now int64) Item[K] {
	n := q.pop()
	e := q.at(n)
	number := q.turns.take()
	t := q.turns.at(number)
	q.numbers++
	*t = turn{entry: n, causes: e.causes, number: q.numbers, since: now, waited: now - e.at}
	item := Item[K]{queue: q, key: e.key, turn: number, number: q.numbers}
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
	return item
}
