// Package queue dispatches keys to workers: each key once however often it was
// added, never to two workers at a time, and at the right moment. Controllers
// need that because events come in bursts, while what counts is only which
// objects to reconcile.
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
//   - The earliest deadline of a delayed key wins, and an addition without delay
//     beats a timer. A timer can be replaced by a later one, and cancelled.
//   - Live keys go before retries, and those before background keys. While a key
//     waits in lane Retrying, one of 8 dispatches in a row comes from there, and
//     while one waits in Background, one of 16.
//   - With Options.Group, the groups of a lane take turns: the n-th key of a
//     group is dispatched after at most n·g keys of its lane, where g is the
//     number of groups that have keys there.
//   - A failed key backs off by itself: evenly jittered, doubling, capped at
//     five minutes. RetryAfter retries after exactly its delay. An addition
//     leaves the back-off as it is, unless it says ResetBackoff: then it ends it.
//   - A held key can be held back (Item.Hold) until Release or a deadline. With
//     Options.MinInterval, a key is not dispatched twice within it.
//   - After Drain, waiting keys are still dispatched; after Stop, none is. Both
//     may be called again, in any order and by any goroutine.
//   - Each item knows why its key was added, in at most eight causes.
//   - Nothing runs in the background: no goroutine is ever started, and timers
//     exist only while a caller waits in Get.
//
// The queue holds keys only. It does not know objects, call reconcilers or
// survive a restart, and its counters are read from [Queue.Stats]. Package
// queue/workqueue makes a queue usable where client-go's is expected.
package queue
