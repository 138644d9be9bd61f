package names

import (
	"errors"
	"fmt"
)

// ErrNotSwept is what [Sweep.Ready] returns until the first sweep has ended.
var ErrNotSwept = errors.New("the first sweep for orphans has not ended yet")

// A RefusedError is the brake's: so many names look orphaned that a mistake is
// more likely.
type RefusedError struct {
	// Orphans of Known names would have been handed on.
	Orphans, Known int
	// Example is one of the orphans.
	Example Name
	// MaxCount and MaxShare are the limits that were both exceeded.
	MaxCount int
	MaxShare float64
}

// Error names the numbers and the ways to let the sweep pass.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%d of %d known names are orphans (such as %s), more than MaxCount (%d) "+
		"and more than MaxShare (%g %%): nothing is cleaned; "+
		"if they are gone indeed, let one sweep pass with Confirm(%d) or Options.Confirmed, "+
		"or raise Options.MaxCount or Options.MaxShare",
		e.Orphans, e.Known, e.Example.Key, e.MaxCount, 100*e.MaxShare, e.Orphans)
}
