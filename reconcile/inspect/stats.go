package inspect

// Outcome is how a reconcile ended.
type Outcome uint8

// The outcomes of a reconcile.
const (
	Succeeded  Outcome = iota // the invariant holds
	Requeued                  // with After
	Conflicted                // with a conflict: repeated quietly
	Failed                    // with an error or a panic: will be retried
	GaveUp                    // with a terminal error
	outcomes
)

// String returns the outcome as it appears in metrics.
func (o Outcome) String() string {
	return [...]string{"success", "requeue_after", "conflict", "error", "terminal", ""}[o]
}

// Stats counts what a controller has done since it was made.
type Stats struct {
	// Reconciles by Outcome.
	Reconciles [outcomes]uint64
	// Panics counts panics of reconciles, which also count as Failed, and those of
	// Options.Group.
	Panics uint64
	// Stuck counts calls (of reconcilers, mappers, external triggers and hooks)
	// that have not returned although their context has ended.
	Stuck int
	// Overran counts log lines that name stuck calls.
	Overran uint64
	// Active is the number of reconciles running now, at most Workers.
	Active, Workers int
	// HeldBack counts reconciles after which the key had to wait until the caches
	// saw its writes.
	HeldBack uint64
	// Overdue counts reconciles that began at the deadline of that wait.
	Overdue uint64
	// Failing counts the keys whose last reconcile failed, up to 1000 of them.
	Failing int
	// HotLoops counts reconciles after which the key was slowed down because it
	// kept writing an object without getting anywhere.
	HotLoops uint64
	// Durations counts the reconciles that took at most a given number of seconds,
	// by that number.
	Durations map[float64]uint64
	// DurationsSum is how long all reconciles took together, in seconds.
	DurationsSum float64
}
