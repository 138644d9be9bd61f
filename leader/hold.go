package leader

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// hold leads until the term ends or the last run has left, and releases the
// Lease if it is still ours and no request under it can arrive any more.
func (e *Elector) hold(ctx context.Context, c *campaign, g grant) {
	log := klog.FromContext(ctx).WithValues("lease", e.lease.key(), "identity", e.holder)
	t := e.newTerm(g)
	var watch sync.WaitGroup
	watch.Go(t.watch)
	e.publish(t)
	log.Info("leading")
	e.renewUntilOver(ctx, t)
	lost := t.ctx.Err() != nil
	t.retire(e, ctx.Err() != nil)
	watch.Wait()
	e.mu.Lock()
	e.quiet = t.flights.until()
	abandoned := c.abandoned
	e.mu.Unlock()
	if lost {
		log.Info("leadership ended", "cause", context.Cause(t.ctx).Error())
		return
	}
	switch d := t.flights.until().Sub(t.clock.Now()); {
	case abandoned:
	case d > 0:
		log.Info("lease not released, it expires: a request without an answer may still arrive", "within", d)
	default:
		e.release(ctx, t)
	}
}

func (e *Elector) publish(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current.Store(t)
	e.member.Begin(t.flights.cutUntil)
	close(e.published)
	e.published = make(chan struct{})
}

// retire takes the term away from new members and waits for the old ones.
func (t *term) retire(e *Elector, stopping bool) {
	e.mu.Lock()
	if t.ctx.Err() != nil {
		e.ended = e.options.Clock.Now()
	}
	e.current.Store(nil)
	e.mu.Unlock()
	t.members.Wait()
	e.mu.Lock()
	e.ended = time.Time{}
	e.mu.Unlock()
	if stopping {
		t.cancel(ErrStopping)
	}
}

// renewUntilOver renews the Lease until the term ends or ctx does.
func (e *Elector) renewUntilOver(ctx context.Context, t *term) {
	for {
		timer := e.options.Clock.NewTimer(e.options.RetryPeriod)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-t.ctx.Done():
			timer.Stop()
			return
		case <-e.member.Nudged():
			timer.Stop()
		case <-timer.C():
		}
		if t.ctx.Err() == nil {
			e.failed(ctx, e.renew(ctx, t))
		}
	}
}

// renew prolongs the term, or ends it if the Lease is another's. Trust counts
// from the moment that the request was sent: the others cannot have seen the
// change before.
func (e *Elector) renew(ctx context.Context, t *term) error {
	sent := e.options.Clock.Now()
	lease, err := e.update(ctx, record.Renewed(t.record(), sent))
	if apierrors.IsConflict(err) {
		if lease, err = e.get(ctx); err == nil && record.Holder(lease) == e.holder {
			// An answer to us was lost, or somebody edited the object.
			sent = e.options.Clock.Now()
			lease, err = e.update(ctx, record.Renewed(lease, sent))
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		e.observe(nil)
		t.cancel(fmt.Errorf("%w: it was deleted", ErrLost))
		return nil
	case err != nil:
		return e.explain("renewing", err)
	case record.Holder(lease) != e.holder:
		e.observe(lease)
		t.cancel(fmt.Errorf("%w: %q holds it", ErrLost, record.Holder(lease)))
		return nil
	}
	e.observe(lease)
	t.renewed(grant{lease: lease, sent: sent})
	return nil
}

// release gives the Lease back, so that the next leader need not wait for it
// to expire. If that fails, it expires.
func (e *Elector) release(ctx context.Context, t *term) {
	log := klog.FromContext(ctx).WithValues("lease", e.lease.key())
	lease := t.record()
	for range record.ReleaseTries {
		after, err := e.update(ctx, record.Released(lease, e.options.Clock.Now()))
		if err == nil {
			e.observe(after)
			log.Info("released the lease")
			return
		}
		if apierrors.IsConflict(err) {
			lease, err = e.get(ctx)
		}
		if err != nil {
			log.Info("lease not released, it expires", "cause", err.Error())
			return
		}
		e.observe(lease)
		if record.Holder(lease) != e.holder {
			return
		}
	}
}
