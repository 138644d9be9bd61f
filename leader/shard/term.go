package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard/internal/fleet"
)

// run keeps slots until ctx has ended and all functions have returned. ctx ends
// when this replica's membership ends. run also ends when a function or the
// decision fails, and returns that error.
func (k *keeper) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() { k.watcher.Run(ctx) })
	defer watching.Wait()
	defer cancel(nil)
	stop := func(err error) {
		if err != nil && k.err == nil {
			k.err = err
			cancel(fmt.Errorf("%w: %w", leader.ErrStopping, err))
		}
	}
	for !k.ended || len(k.holdings)+len(k.busy) > 0 {
		stop(k.wait(ctx))
		if ctx.Err() != nil && !k.ended {
			k.ended = true
			if errors.Is(context.Cause(ctx), leader.ErrStopping) {
				k.Member.Leave()
			}
		}
		if !k.ended && k.synced {
			stop(k.decide(ctx))
		}
	}
	return k.err
}

// wait blocks until a report, an update of the watch, a deadline or the end of
// ctx. It processes the report or the update, and then the pending ones as
// drain does.
func (k *keeper) wait(ctx context.Context) error {
	now := k.Now()
	timer := k.Member.Timing.Clock.NewTimer(k.due(now).Sub(now))
	defer timer.Stop()
	done := ctx.Done()
	if k.ended {
		done = nil
	}
	select {
	case <-done:
	case report := <-k.reports:
		return errors.Join(report(), k.drain())
	case u := <-k.watcher.Updates:
		k.update(u)
	case <-timer.C():
	}
	return k.drain()
}

// drain processes the pending reports and updates, at most maxPending of them.
// A single decision about all of them costs no more than a decision about one.
func (k *keeper) drain() error {
	var errs []error
	for range maxPending {
		select {
		case report := <-k.reports:
			errs = append(errs, report())
		case u := <-k.watcher.Updates:
			k.update(u)
		default:
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// due returns when to decide again without an event: when a lease expires, when
// a released slot may be taken, when a slot has waited long enough for its
// target, or after a retry period, whichever is first.
func (k *keeper) due(now time.Time) time.Time {
	k.Lock()
	defer k.Unlock()
	next := now.Add(k.Member.Timing.RetryPeriod)
	earlier := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	for _, member := range k.View.Members {
		earlier(member.FreeAt(k.View.Duration))
	}
	for _, quietEnd := range k.View.Quiet {
		earlier(quietEnd)
	}
	for _, freed := range k.free {
		earlier(freed.Add(k.patience()))
	}
	return next
}

// patience returns how long a free slot is left to its target. It is enough for
// the target to decide again and to make one request.
func (k *keeper) patience() time.Duration {
	return k.Member.Timing.RetryPeriod + k.Member.Timing.RequestTimeout
}

// update applies an update of the watch to the view. The keeper decides only
// after the first list: a replica that knows no owners would claim every slot.
func (k *keeper) update(u fleet.Update) {
	now := k.Now()
	k.Lock()
	defer k.Unlock()
	k.NoteProblem(u.Err)
	switch {
	case u.Err != nil:
	case u.Event != nil:
		k.View.Observe(u.Event, u.Deleted, now)
	default:
		k.synced = true
		k.View.Replace(u.List, now)
	}
}
