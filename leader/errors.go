package leader

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A draining is why the context of a leadership or of a slot ended that is
// still held until its function has returned: turns in flight may finish.
type draining string

func (d draining) Error() string { return string(d) }

// Draining tells packages that do not import this one.
func (d draining) Draining() bool { return true }

// Why a leadership ended: what [context.Cause] of its context wraps.
var (
	// ErrLost says that the Lease is another's, or gone.
	ErrLost = errors.New("the lease is lost")
	// ErrStopping says that the context given to Run ended. The lease is still
	// held and renewed until the function returns.
	ErrStopping error = draining("stopping")
	// ErrFenced says that no renewal succeeded within the renew deadline, so
	// that another may lead by now. It is also the error of a request that a
	// fence refused.
	ErrFenced = errors.New("fenced: may not lead any more")
	// ErrMoved says that a slot goes to another replica. It is still owned until
	// the function returns.
	ErrMoved error = draining("the slot moves to another replica")
)

// ErrDivision says that the replicas do not agree on how keys are divided into
// slots.
var ErrDivision = errors.New("the replicas divide the keys differently")

// explain adds the way out to an error of the API server.
func (l Lease) explain(doing string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s lease %q: grant %s on leases of coordination.k8s.io in "+
			"namespace %q: %w", doing, l.key(), l.verbs, l.Namespace, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s lease %q: namespace %q must exist: %w", doing, l.key(), l.Namespace, err)
	default:
		return fmt.Errorf("%s lease %q: %w", doing, l.key(), err)
	}
}
