package supervisor

import (
	"context"
	"errors"
	"os"
	"time"
)

const parentInterval = 500 * time.Millisecond

// ErrParentEnded is the cause if a context of [WithParent] ends because the
// parent has ended.
var ErrParentEnded = errors.New("the process that started this one has ended")

// WithParent returns a context that also ends when the process has ended that
// started this one.
func WithParent(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		until(ctx, os.Getppid(), os.Getppid)
		cancel(ErrParentEnded) // unless ctx has ended before
	}()
	return ctx, cancel
}

// until returns when ctx ends or the parent is not first any more.
func until(ctx context.Context, first int, parent func() int) {
	tick := time.NewTicker(parentInterval)
	defer tick.Stop()
	for parent() == first {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
