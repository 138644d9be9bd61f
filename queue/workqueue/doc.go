// Package workqueue makes a queue usable where client-go's is expected, for
// controllers that were written for that one.
//
//	client-go's methods ──▶ New(q, nil) ──▶ q, a queue.Queue ──▶ q.Stats, q.Entries
//
// The contract:
//
//   - A key that is added both at once and with a delay is dispatched for each
//     of them: Add neither waits for AddAfter and AddRateLimited nor replaces
//     them. Of two delays of a key the earlier counts.
//   - Only Forget forgets failures.
//   - ShutDown is Drain of the queue. ShutDownWithDrain also waits until every
//     key that waited or was held has been done, or ShutDown is called.
//
// Everything enters lane Live, in order of arrival, and has no causes.
package workqueue
