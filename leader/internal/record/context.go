package record

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// DrainingError is the cause of a context whose lease or slot is held until the
// function returns, so that reconciles in flight may finish.
type DrainingError string

func (d DrainingError) Error() string { return string(d) }

// Draining reports true.
func (d DrainingError) Draining() bool { return true }

type ownKey struct{}

// WithOwn returns a context for a request that owner makes for its own Leases.
// It does not end with ctx: an answer that is never read could leave a Lease
// taken.
func WithOwn(ctx context.Context, owner any) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), ownKey{}, owner)
}

// IsOwn reports whether ctx is that of a request for owner's own Leases.
func IsOwn(ctx context.Context, owner any) bool { return ctx.Value(ownKey{}) == owner }

// Sleep waits until d has passed or ctx has ended.
func Sleep(ctx context.Context, c clock.Clock, d time.Duration) {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
