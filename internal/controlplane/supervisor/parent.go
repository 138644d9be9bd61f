package supervisor

import (
	"context"
	"os"
	"time"
)

const parentInterval = 500 * time.Millisecond

// WithParent returns a context that also ends when the process that started this one is gone, however it went.
func WithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		until(ctx, os.Getppid(), os.Getppid)
	}()
	return ctx, cancel
}

// until returns when ctx ends or the parent is not the first one any more.
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
