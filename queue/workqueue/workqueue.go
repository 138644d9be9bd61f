package workqueue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/internal/keyed"
)

// Options configures a queue. Nil and zero fields mean the defaults.
type Options[K comparable] struct {
	// RateLimiter gives the delays of AddRateLimited and counts failures for
	// NumRequeues. With a RateLimiter, the queue's Stats counts no failures.
	// Defaults to the queue's back-off.
	RateLimiter workqueue.TypedRateLimiter[K]
	// Metrics provides the metrics that client-go's queues have, under the name
	// of the queue. The gauges of unfinished work are set twice a second while
	// a worker holds a key. Defaults to no metrics.
	Metrics workqueue.MetricsProvider
}

// New returns q with the methods and the semantics of client-go's rate-limited
// queue. It is safe for concurrent use. q can still be used directly, for
// example for [queue.Queue.Stats] and [queue.Queue.Entries]. With metrics, a
// timer runs while workers hold keys. Without metrics, no goroutine is started,
// and a timer exists only while a caller waits in Get. A nil o means the
// defaults; q must not be nil.
func New[K comparable](q *queue.Queue[K], o *Options[K]) workqueue.TypedRateLimitingInterface[K] {
	w := &adapter[K]{queue: q, keys: q.Parts()}
	if o != nil {
		w.limiter = o.RateLimiter
		if o.Metrics != nil {
			w.meters = newMeters(q.Name(), w.keys, q.Stats, o.Metrics)
		}
	}
	return w
}

// adapter implements client-go's methods, most of which take a key, with the
// keyed operations of a queue.
type adapter[K comparable] struct {
	queue   *queue.Queue[K]
	keys    keyed.Queue[K]
	limiter workqueue.TypedRateLimiter[K]
	meters  *meters[K] // nil without metrics

	mu     sync.Mutex // guards forced
	forced chan struct{}
}

func (w *adapter[K]) Add(key K) {
	w.queue.Add(key)
	w.meters.publish()
}

// AddAfter adds key after d. As in client-go, the metrics count it as a retry
// even if key has not failed.
func (w *adapter[K]) AddAfter(key K, d time.Duration) {
	if w.ShuttingDown() {
		return
	}
	w.meters.recordRetry()
	if d > 0 {
		w.keys.AddLater(key, d, false)
	} else {
		w.queue.Add(key)
	}
	w.meters.publish()
}

// AddRateLimited adds key after a delay, and counts a failure of key.
func (w *adapter[K]) AddRateLimited(key K) {
	if w.limiter != nil {
		w.AddAfter(key, w.limiter.When(key))
		return
	}
	if w.keys.AddLater(key, 0, true) {
		w.meters.recordRetry()
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
	return w.keys.Failures(key)
}

// Get waits for the next key and returns it. It has no context, so only
// ShutDown and ShutDownWithDrain end the wait.
func (w *adapter[K]) Get() (key K, shutdown bool) {
	key, waited, err := w.keys.Get(w.meters != nil)
	if err != nil {
		return key, true
	}
	w.meters.recordGet(waited)
	return key, false
}

func (w *adapter[K]) Done(key K) {
	if age, ok := w.keys.Done(key, w.meters != nil); ok {
		w.meters.recordDone(age)
	}
}

func (w *adapter[K]) Len() int { return w.queue.Len() }

func (w *adapter[K]) ShuttingDown() bool { return w.keys.Draining() }

// ShutDown stops the intake of the queue, as in client-go. It also ends calls
// of ShutDownWithDrain that wait for held keys.
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
	empty := w.keys.Empty()
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
