package names

import (
	"errors"
	"fmt"
	"math"
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
	// Advice is what to do about it. [Options.Refused] may set it to the words of
	// the program's own flags. Defaults to the ways of this package.
	Advice string
}

// Error names the numbers and the ways to let the sweep pass.
func (e *RefusedError) Error() string {
	advice := e.Advice
	if advice == "" {
		advice = fmt.Sprintf("if they are gone indeed, let one sweep pass with Confirm(%d) or Options.Confirmed, "+
			"or raise Options.MaxCount or Options.MaxShare", e.Orphans)
	}
	return fmt.Sprintf("safety limit: %d of %d known names are orphans (such as %s), more than %d "+
		"and more than %g %%: nothing is cleaned; %s",
		e.Orphans, e.Known, e.Example.Key, e.MaxCount, math.Round(1e4*e.MaxShare)/100, advice)
}
