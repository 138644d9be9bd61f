// Package queue dispatches keys to workers: each key once, no matter how often
// it was added, never to two workers at a time, and at the right moment.
// Controllers need that because events arrive in bursts, and all that matters
// is which objects to reconcile. A worker is a loop:
//
//	for {
//		item, err := q.Get(ctx)
//		if err != nil {
//			return err // ctx has ended, or the queue was stopped
//		}
//		if err := reconcile(ctx, item.Key()); err != nil {
//			item.Retry()
//		} else {
//			item.Done()
//		}
//	}
//
// How a key moves through the queue:
//
//	Add, ────▶ [live]       ──┐
//	AddWith-   [retrying]   ──┼──▶ Get ──▶ Item ──▶ Done
//	Options    [background] ──┘              │
//	      │         ▲ its time has come      ├──▶ After
//	      └────▶ timers ◀── hold, interval ──┴──▶ Retry, RetryAfter
//
// The contract:
//
//   - A key that was added many times while it waited is dispatched once.
//   - A key is held by at most one worker. If it was added meanwhile, it is
//     dispatched again when its item has ended.
//   - The earliest deadline of a delayed key wins, and an addition without a
//     delay beats a timer. A timer can be replaced by a later one, and
//     cancelled.
//   - Normal keys go before retries, and retries before background keys. While
//     a key waits in lane Retrying, one in every 8 dispatches comes from there;
//     while one waits in Background, one in every 16.
//   - With Options.Group, the groups of a lane take turns: the n-th key of a
//     group is dispatched after at most n·g keys of its lane, where g is the
//     number of groups with keys in the lane.
//   - A failed key backs off on its own: full jitter, doubling, capped at five
//     minutes. RetryAfter retries after exactly its delay. An addition does not
//     change the back-off, unless it sets ResetBackoff: that ends the back-off.
//   - A held key can be held back (Item.Hold) until Release or a deadline. With
//     Options.MinInterval, a key is not dispatched twice within that interval.
//   - After Drain, waiting keys are still dispatched; after Stop, none are.
//     Both may be called repeatedly, in any order and from any goroutine.
//   - Each item knows why its key was added, as at most eight causes. It also
//     knows whether every addition was the caller's own work (AddOptions.Own),
//     even with more than eight causes.
//   - Nothing runs in the background: no goroutine is ever started, and timers
//     exist only while a caller is waiting in Get.
//
// The queue stores keys only. It does not know objects, it does not call
// reconcilers, and its content is lost when the process ends. [Queue.Stats]
// returns its counters. Package queue/workqueue makes a queue usable where
// client-go's is expected.
package queue
