package reconcile

import (
	"time"

	"github.com/homeostat/homeostat/internal/terminal"
)

// A Result says when to look again without a change. The zero value waits for
// the next change.
type Result struct {
	after time.Duration
	again bool
}

// After looks again in d, or earlier if a watched object changes. Zero and less
// look again soon, and each time at twice the delay while nothing observed
// changes, as retries do.
//
// Together with an error it replaces the back-off: the retry comes after
// exactly d. Zero and less leave the back-off as it is.
func After(d time.Duration) Result {
	return Result{after: max(d, 0), again: d <= 0}
}

// Terminal marks err as one that a retry cannot cure, such as a spec that
// contradicts itself. It is logged and counted, and the key rests until a
// watched object changes. Terminal(nil) is nil.
func Terminal(err error) error { return terminal.Mark(err) }
