package informer

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// A mortalClock is the real clock, but its pauses end with a context: the
// reflector would otherwise sleep out a back-off before it notices the end.
type mortalClock struct {
	clock.RealClock
	ctx context.Context //nolint:containedctx // clock.Clock has no other way in
}

func newClock(ctx context.Context) clock.WithTicker { return mortalClock{ctx: ctx} }

// After returns a channel that gets the time after d, or when the context ends.
func (c mortalClock) After(d time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 2)
	send := func() { ch <- time.Now() }
	forget := context.AfterFunc(c.ctx, send)
	time.AfterFunc(d, func() {
		forget()
		send()
	})
	return ch
}
