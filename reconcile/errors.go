package reconcile

import (
	"errors"
	"fmt"

	"github.com/homeostat/homeostat/internal/terminal"
)

// The causes (context.Cause) with which the context of a reconcile ends. It also
// ends when the leadership or the shard is lost, with the cause that the Leader or
// the Shards give.
var (
	// ErrGraceExpired is the cause if the reconcile was still running when the
	// grace period of a stopping controller ended. [Controller.Run] returns it,
	// with the names of the calls, if any has not returned five seconds after
	// that.
	ErrGraceExpired = errors.New("the controller is stopping and its grace period is over")
	// ErrReconcileTimeout is the cause if the reconcile took longer than
	// Options.ReconcileTimeout. The context's Err is then context.DeadlineExceeded,
	// and context.Canceled for every other cause.
	ErrReconcileTimeout = errors.New("the reconcile took longer than its timeout")
)

// errGoexit is the error of a call that ended its goroutine instead of returning.
var errGoexit = errors.New("runtime.Goexit was called, as require and t.FailNow do in tests: return an error instead")

// printable returns err, or an error that describes it if its Error method
// panics, usually because of a nil pointer. A terminal error remains terminal.
func printable(err error) (safe error) {
	defer func() {
		if r := recover(); r != nil {
			bad := terminal.Unmark(err)
			safe = fmt.Errorf("the error is a %T whose Error method panics (%v): "+
				"return nil itself where there is no error, not a nil pointer", bad, r)
			if bad != err { //nolint:errorlint // whether it was marked
				safe = terminal.Mark(safe)
			}
		}
	}()
	_ = err.Error()
	return err
}
