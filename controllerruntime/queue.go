package controllerruntime

import (
	"sync"

	clientgo "k8s.io/client-go/util/workqueue"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/workqueue"
)

// Queues makes the queues of a manager's controllers, and shows their state.
// Its zero value is ready to use. It is safe for concurrent use.
type Queues[R comparable] struct {
	// Options are the options of each queue, except for its name. Nil fields
	// mean the defaults of package queue.
	Options queue.Options[R]

	mu     sync.Mutex // guards the fields below
	queues []*queue.Queue[R]
}

// New returns a queue of package queue. It is a function for
// controller.Options.NewQueue:
//
//	var queues controllerruntime.Queues[reconcile.Request]
//	controller.Options{NewQueue: queues.New}
//
// limiter gives the delays after failures, as in controller-runtime.
// controller-runtime's priorities are not used: all keys are dispatched in the
// order in which they were added, unless Options have a Group or a MinInterval.
// The queue does not report controller-runtime's metrics; see [Queues.Stats].
// New panics if Options are invalid, because controller-runtime's signature has
// no error.
func (q *Queues[R]) New(name string, limiter clientgo.TypedRateLimiter[R]) clientgo.TypedRateLimitingInterface[R] {
	options := q.Options
	options.Name = name
	created, err := queue.New(&options)
	if err != nil {
		panic(err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queues = append(q.queues, created)
	return workqueue.New(created, &workqueue.Options[R]{RateLimiter: limiter})
}

// Stats returns the state of each queue, by the name of its controller.
func (q *Queues[R]) Stats() map[string]queue.Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	stats := make(map[string]queue.Stats, len(q.queues))
	for _, member := range q.queues {
		stats[member.Name()] = member.Stats()
	}
	return stats
}

// Entries returns at most limit keys of each queue, by the name of its
// controller. An entry shows since when the key has been waiting, and whether
// it is held; see [queue.Queue.Entries].
func (q *Queues[R]) Entries(limit int) map[string][]queue.EntryStatus[R] {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := make(map[string][]queue.EntryStatus[R], len(q.queues))
	for _, member := range q.queues {
		entries[member.Name()] = member.Entries(limit)
	}
	return entries
}
