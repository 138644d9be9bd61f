package leader

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
)

// term is one leadership: from a granted Lease until it is lost or released.
// It is safe for concurrent use.
type term struct {
	elector *Elector
	clock   clock.Clock
	trust   time.Duration
	ctx     context.Context
	cancel  context.CancelCauseFunc

	flights flights

	// members are the functions that run under this term. New ones are added
	// under the elector's lock only, while the term is the current one.
	members sync.WaitGroup

	mu    sync.Mutex // guards what follows
	lease *coordinationv1.Lease
	sent  time.Time // when the last successful renewal was sent
}

// grant is a Lease that the API server wrote in our name.
type grant struct {
	lease *coordinationv1.Lease
	sent  time.Time
}

func (e *Elector) newTerm(g grant) *term {
	t := &term{elector: e, clock: e.options.Clock, trust: e.options.RenewDeadline, lease: g.lease, sent: g.sent}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// left is how long the term may still be trusted; 0 when it may not. The
// monotonic clock decides; a wall clock that says "longer ago" is believed too,
// because it runs on while the machine is suspended.
func (t *term) left() time.Duration {
	if t.ctx.Err() != nil {
		return 0
	}
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	age := max(now.Sub(t.sent), now.Round(0).Sub(t.sent.Round(0)))
	return max(0, t.trust-age)
}

// monotonicLeft is [term.left] by the monotonic clock alone, the clock of
// timers.
func (t *term) monotonicLeft() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.trust-t.clock.Since(t.sent))
}

func (t *term) until() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent.Add(t.trust)
}

func (t *term) record() *coordinationv1.Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease
}

func (t *term) renewed(g grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease, t.sent = g.lease, g.sent
}

// watch ends the term when it may not be trusted any more, whatever the
// requests in flight do. It returns when the term has ended.
func (t *term) watch() {
	for {
		left := t.monotonicLeft()
		if left == 0 {
			t.cancel(fmt.Errorf("%w: no renewal for %v", ErrFenced, t.trust))
			return
		}
		timer := t.clock.NewTimer(left)
		select {
		case <-t.ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// refusal is why nothing may be written under the term.
func (t *term) refusal() error {
	cause := context.Cause(t.ctx)
	if cause == nil {
		return fmt.Errorf("%w: no renewal for %v", ErrFenced, t.trust)
	}
	return fmt.Errorf("%w: %w", ErrFenced, cause)
}
