package queue

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// WorkqueueOptions of a [Workqueue]. Nil and zero fields mean the defaults.
type WorkqueueOptions[K comparable] struct {
	// RateLimiter decides over the delays of AddRateLimited and counts for
	// NumRequeues, instead of the queue's back-off.
	RateLimiter workqueue.TypedRateLimiter[K]
	// Metrics makes the metrics that client-go's queues keep, under the name of
	// the queue; none. The gauges of unfinished work are set twice a second
	// while a key is held.
	Metrics workqueue.MetricsProvider
}

// Workqueue returns q with the methods and the semantics of client-go's
// rate-limited queue, for controllers that were written for it. Everything
// enters lane Live, in order of arrival.
//
// As there, a key that is added both at once and with a delay is dispatched for
// each of them: Add neither waits for AddAfter and AddRateLimited nor replaces
// them. Of two delays of a key the earlier counts, and only Forget forgets
// failures. ShutDown is [Queue.Drain]; ShutDownWithDrain also waits until every
// key that waited or was held has been done, or ShutDown is called.
func Workqueue[K comparable](q *Queue[K], o *WorkqueueOptions[K]) workqueue.TypedRateLimitingInterface[K] {
	w := &adapter[K]{queue: q}
	if o != nil {
		w.limiter = o.RateLimiter
		if o.Metrics != nil {
			w.meters = newMeters(q, o.Metrics)
		}
	}
	return w
}

type adapter[K comparable] struct {
	queue   *Queue[K]
	limiter workqueue.TypedRateLimiter[K]
	meters  *meters[K] // nil without metrics

	mu     sync.Mutex // guards forced
	forced chan struct{}
}

func (w *adapter[K]) Add(key K) {
	w.queue.Add(key)
	w.meters.publish()
}

func (w *adapter[K]) AddAfter(key K, d time.Duration) {
	if w.ShuttingDown() {
		return
	}
	w.meters.retried()
	if d > 0 {
		w.queue.addLater(key, int64(d), false)
	} else {
		w.queue.Add(key)
	}
	w.meters.publish()
}

func (w *adapter[K]) AddRateLimited(key K) {
	if w.limiter != nil {
		w.AddAfter(key, w.limiter.When(key))
		return
	}
	if w.queue.addLater(key, 0, true) {
		w.meters.retried()
	}
	w.meters.publish()
}

func (w *adapter[K]) Forget(key K) {
	if w.limiter != nil {
		w.limiter.Forget(key)
		return
	}
	w.queue.Forget(key)
}

func (w *adapter[K]) NumRequeues(key K) int {
	if w.limiter != nil {
		return w.limiter.NumRequeues(key)
	}
	return w.queue.failures(key)
}

func (w *adapter[K]) Get() (key K, shutdown bool) {
	var item Item[K]
	if err := w.queue.get(context.Background(), false, &item); err != nil {
		return key, true
	}
	w.meters.got(item)
	return item.key, false
}

func (w *adapter[K]) Done(key K) {
	held, ok := w.queue.release(key)
	if ok {
		w.meters.did(held)
	}
}

func (w *adapter[K]) Len() int { return w.queue.Len() }

func (w *adapter[K]) ShuttingDown() bool { return w.queue.draining() }

func (w *adapter[K]) ShutDown() {
	w.queue.Drain()
	w.meters.publish()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.forced != nil {
		close(w.forced)
		w.forced = nil
	}
}

func (w *adapter[K]) ShutDownWithDrain() {
	w.queue.Drain()
	w.meters.publish()
	empty := w.queue.whenEmpty()
	w.mu.Lock()
	if w.forced == nil {
		w.forced = make(chan struct{})
	}
	forced := w.forced
	w.mu.Unlock()
	select {
	case <-empty:
	case <-forced:
	}
}

// draining reports whether the queue takes no more keys.
func (q *Queue[K]) draining() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mode != running
}

// failures is how often key has failed in a row.
func (q *Queue[K]) failures(key K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.find(key, q.hash(key)); n != 0 {
		if m := q.recall(q.at(n)); m != nil {
			return int(m.failures)
		}
	}
	return 0
}

// release ends the turn of key, if it is held, and returns how long that was.
func (q *Queue[K]) release(key K) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.find(key, q.hash(key))
	if n == 0 || q.at(n).state != held {
		return 0, false
	}
	number := q.at(n).next
	t := q.turns.at(number)
	var age time.Duration
	if q.timed {
		age = time.Duration(q.now() - t.since)
	}
	q.finish(number, t, &ending{how: released})
	return age, true
}

// whenEmpty returns a channel that is closed when a drained queue is empty and
// no key is held.
func (q *Queue[K]) whenEmpty() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.emptied == nil {
		q.emptied = make(chan struct{})
	}
	empty := q.emptied
	q.reportEmpty()
	return empty
}
