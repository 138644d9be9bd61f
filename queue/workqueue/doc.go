// Package workqueue makes a queue usable where client-go's is expected, for
// controllers that were written for client-go:
//
//	q, err := queue.New[string](nil)
//	limited := workqueue.New(q, nil) // a workqueue.TypedRateLimitingInterface[string] of client-go
//
//	client-go's methods ──▶ New(q, nil) ──▶ q, a queue.Queue ──▶ q.Stats, q.Entries
//
// The contract:
//
//   - A key that is added once without a delay and once with a delay is
//     dispatched twice: Add neither waits for AddAfter and AddRateLimited nor
//     replaces them. If a key has two delays, the earlier one counts.
//   - Only Forget forgets failures.
//   - ShutDown drains the queue. ShutDownWithDrain also waits until every
//     waiting or held key is done, or ShutDown is called.
//
// All keys enter lane Normal, in the order of their arrival, and have no
// causes.
package workqueue
