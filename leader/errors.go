package leader

import (
	"errors"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// Why a leadership ended: what [context.Cause] of its context wraps.
var (
	// ErrLost says that the Lease is another's, or gone.
	ErrLost = errors.New("the lease is lost")
	// ErrStopping says that the context given to Run ended. The lease is still
	// held and renewed until the function returns.
	ErrStopping error = record.Draining("stopping")
	// ErrFenced says that no renewal succeeded within the renew deadline, so
	// that another may lead by now. It is also the error of a request that a
	// fence refused.
	ErrFenced = errors.New("fenced: may not lead any more")
)
