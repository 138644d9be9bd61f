package supervisor

import (
	"context"
	"errors"
	"os"
	"time"
)

const parentInterval = 500 * time.Millisecond

// ErrParentEnded is the cause of a context of [WithParent] that has ended
// because the parent process has ended.
var ErrParentEnded = errors.New("the process that started this one has ended")

// WithParent returns a context that also ends when the parent process, which
// has started this process, has ended.
func WithParent(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		waitForParent(ctx, os.Getppid(), os.Getppid)
		cancel(ErrParentEnded) // unless ctx has ended before
	}()
	return ctx, cancel
}

// waitForParent returns when ctx ends, or when parent no longer returns first.
func waitForParent(ctx context.Context, first int, parent func() int) {
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
