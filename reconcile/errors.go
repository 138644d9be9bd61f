package reconcile

import (
	"errors"
	"fmt"

	"github.com/homeostat/homeostat/internal/terminal"
)

// These are causes (context.Cause) with which the context of a reconcile ends.
// The context also ends when the leadership or the shard is lost, with the
// cause that the Leader or the Shards give.
var (
	// ErrGraceExpired means that a reconcile was still running when its controller
	// stopped and the grace period ended. If some calls have still not returned
	// five seconds later, [Controller.Run] returns ErrGraceExpired with the names
	// of those calls.
	ErrGraceExpired = errors.New("the controller is stopping and its grace period is over")
	// ErrReconcileTimeout means that a reconcile took longer than
	// Options.ReconcileTimeout. The context's Err is then
	// context.DeadlineExceeded. For every other cause it is context.Canceled.
	ErrReconcileTimeout = errors.New("the reconcile took longer than its timeout")
)

// printable returns err, or an error that describes it if its Error method
// panics, usually because of a nil pointer. A terminal error remains terminal.
func printable(err error) (safe error) {
	defer func() {
		if r := recover(); r != nil {
			bad := terminal.Unmark(err)
			safe = fmt.Errorf("the error is a %T whose Error method panics (%v): "+
				"return nil, not a nil pointer, if there is no error", bad, r)
			if bad != err { //nolint:errorlint // whether it was marked
				safe = terminal.Mark(safe)
			}
		}
	}()
	_ = err.Error()
	return err
}
