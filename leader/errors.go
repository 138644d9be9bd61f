package leader

import (
	"context"
	"errors"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// The reasons why a leadership ended. [context.Cause] of its context wraps one
// of them.
var (
	// ErrLost means that this replica is no longer the holder in the Lease,
	// usually because another replica has taken it, or that the Lease was
	// deleted.
	ErrLost = errors.New("the lease is lost")
	// ErrStopping means that the context given to Run ended. The Lease is held
	// and renewed until the function given to Run returns.
	ErrStopping error = record.DrainingError("stopping")
	// ErrFenced means that no renewal succeeded within the renew deadline, so
	// another replica may lead. It is also the error of a request that a fence
	// refused.
	ErrFenced = errors.New("fenced: this replica may no longer lead")
)

// isEnd reports whether err only says that the function's leadership was lost.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) || errors.Is(err, ErrFenced)
}
