// Package queue hands keys to workers: each key once however often it was
// added, never to two workers at a time, and at the right moment. Controllers
// need that because events come in bursts, while what counts is only which
// objects to look at.
//
//	Add, AddWith ──▶ [live]       ──┐
//	      │          [retrying]   ──┼──▶ Get ──▶ Item ──▶ Done
//	      │          [background] ──┘              │
//	      │               ▲ its time has come      ├──▶ After
//	      └──────────▶ timers ◀── hold, interval ──┴──▶ Retry, RetryAfter
//
// The contract:
//
//   - A key that was added many times while it waited is handed out once.
//   - A key is held by at most one worker. If it was added meanwhile, it is
//     handed out again when its turn has ended.
//   - The earliest deadline of a delayed key wins, and an addition without delay
//     beats a timer. Timers can be replaced and cancelled.
//   - Live keys go before retries, and those before background keys. A lower
//     lane ages: of [RetryingShare] and [BackgroundShare] hand-outs in a row, at
//     least one comes from it.
//   - With Options.Group, the groups of a lane take turns: the n-th key of a
//     group is handed out after at most n·g keys of its lane, where g is the
//     number of groups that have keys there.
//   - A failed key backs off by itself: evenly jittered, doubling, capped at
//     minutes. RetryAfter is honoured to the letter. An addition leaves the
//     back-off as it is, unless it says Reset: then it ends it.
//   - A key can be kept back until something has been seen, with a deadline
//     (Item.Hold, Release), and by a minimum interval between its turns.
//   - Drain finishes what waits, Stop finishes what is held. Both may be called
//     again and from anywhere.
//   - Each turn knows why it happens; the list of causes is bounded.
//   - Nothing runs in the background: no goroutine is ever started, and timers
//     exist only while somebody waits in Get.
//
// The queue holds keys only. It does not know objects, call reconcilers or
// survive a restart, and what it counts is read from Stats. [Workqueue] makes a
// queue usable where client-go's is expected.
package queue
