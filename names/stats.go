package names

import "time"

// Stats counts what a [Sweep] has done since it was made.
type Stats struct {
	// Sweeps have ended well; Failures have not, Refusals of the brake included.
	Sweeps, Failures, Refusals uint64
	// Orphans is how many were handed on, counted again in every sweep.
	Orphans uint64
	// Refused is how many orphans the brake holds back since the last sweep: zero
	// once one has ended well.
	Refused int
	// Known and OutOfScope are the numbers of different names in the last
	// listing that succeeded.
	Known, OutOfScope int
	// LastSuccess is the end of the last sweep that ended well; zero if none.
	LastSuccess time.Time
}
