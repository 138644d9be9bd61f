package queue

import "time"

// An Addition says how a key enters the queue. The zero value is a live change
// to look at now, of unknown cause.
type Addition struct {
	// Lane is where the key waits. A key that waits already only moves up, also
	// by an addition with a delay.
	Lane Lane
	// After delays the key. The earliest deadline of a key wins, and an addition
	// without delay beats every timer.
	After time.Duration
	// Replace makes After replace the timer of the key, earlier or later,
	// instead of competing with it. It delays no key that waits for its turn
	// already.
	Replace bool
	// Reset says that the reason of earlier failures may be gone (a changed
	// generation, UID, label or annotation): it ends the key's back-off. An
	// addition without Reset neither shortens nor lengthens a back-off.
	Reset bool
	// Cause is remembered until the turn that it leads to; see [Item.Causes].
	Cause Cause
}
