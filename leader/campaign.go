package leader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// run campaigns and leads until ctx ends, which is when the last call of Run
// leaves.
func (e *Elector) run(ctx context.Context, c *campaign) {
	defer func() {
		e.mu.Lock()
		e.campaign = nil
		e.mu.Unlock()
		close(c.done)
	}()
	for ctx.Err() == nil {
		g, ok := e.try(ctx)
		if ok {
			e.hold(ctx, c, g)
			e.nextTerm()
			continue
		}
		e.sleep(ctx, e.pause())
	}
}

// try looks at the Lease once and takes it if it is free. Its requests are not
// cut off by ctx: an answer that nobody reads would leave the Lease taken.
func (e *Elector) try(ctx context.Context) (grant, bool) {
	lease, err := e.get(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		e.failed(ctx, e.lease.explain("reading", err))
		return grant{}, false
	}
	e.observe(lease)
	if !e.free() {
		e.failed(ctx, e.twin())
		return grant{}, false
	}
	sent := e.options.Clock.Now()
	if lease == nil {
		lease, err = e.create(ctx, sent)
	} else {
		lease, err = e.update(ctx, taken(lease, e.holder, e.options.LeaseDuration, sent))
	}
	switch {
	case err == nil:
		e.observe(lease)
		e.failed(ctx, nil)
		return grant{lease: lease, sent: sent}, true
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return grant{}, false // another was faster
	default:
		e.failed(ctx, e.lease.explain("taking", err))
		return grant{}, false
	}
}

// free reports whether the Lease may be taken.
func (e *Elector) free() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.options.Clock.Now().Before(e.freeAt())
}

// freeAt is when the Lease may be taken: at once if it has no holder or we are that, otherwise when the holder has not
// renewed it for a whole lease duration by our clock; and not before the requests of our own last term can no longer
// arrive. It is called with mu held.
func (e *Elector) freeAt() time.Time {
	at := e.seen.freeAt(e.options.LeaseDuration)
	if e.ours(holderOf(e.seen.lease)) {
		at = e.seen.since
	}
	if e.quiet.After(at) {
		return e.quiet
	}
	return at
}

// ours reports whether a holder is this process, in whatever term.
func (e *Elector) ours(holder string) bool { return holder == e.holder || e.member.was(holder) }

// pause is how long to wait before the next look: not beyond the moment at
// which the Lease becomes free, and jittered, so that replicas that started
// together do not stay together.
func (e *Elector) pause() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	period := e.options.RetryPeriod + rand.N(e.options.RetryPeriod/5+1)
	left := e.freeAt().Sub(e.options.Clock.Now())
	if left > 0 && left < period {
		return left
	}
	return period
}

// observe records what the Lease was in an answer that has just arrived.
func (e *Elector) observe(lease *coordinationv1.Lease) {
	now := e.options.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = e.seen.saw(lease, now)
}

// twin is the complaint about another live process with our identity.
func (e *Elector) twin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	holder := holderOf(e.seen.lease)
	if e.ours(holder) || !strings.HasPrefix(holder, e.lease.Identity+"_") || !e.seen.since.After(e.seen.first) {
		return nil
	}
	return fmt.Errorf("campaigning for lease %q: Lease.Identity %q is also that of the live replica %q: "+
		"give each replica its own, such as the name of its pod", e.lease.key(), e.lease.Identity, holder)
}

// failed keeps why an attempt failed, and logs it when it is news.
func (e *Elector) failed(ctx context.Context, err error) {
	e.mu.Lock()
	news := err != nil && (e.problem == nil || e.problem.Error() != err.Error())
	e.problem = err
	e.mu.Unlock()
	if news {
		klog.FromContext(ctx).Error(err, "lease request failed", "lease", e.lease.key())
	}
}

func (e *Elector) get(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, end := e.request(ctx, e.options.RequestTimeout)
	defer end()
	lease, err := e.lease.Client.Leases(e.lease.Namespace).Get(ctx, e.lease.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return lease, nil
}

func (e *Elector) create(ctx context.Context, now time.Time) (*coordinationv1.Lease, error) {
	ctx, end := e.request(ctx, e.options.RequestTimeout)
	defer end()
	lease := taken(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.lease.Namespace, Name: e.lease.Name},
	}, e.holder, e.options.LeaseDuration, now)
	e.member.mark(lease)
	return e.lease.Client.Leases(e.lease.Namespace).Create(ctx, lease, metav1.CreateOptions{})
}

func (e *Elector) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, end := e.request(ctx, e.options.RequestTimeout)
	defer end()
	e.member.mark(lease)
	return e.lease.Client.Leases(e.lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
}

// request returns a context for one request of the Lease: it outlives the
// campaign, but not the timeout, and passes our own fence.
func (e *Elector) request(ctx context.Context, timeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), ownKey{}, e), timeout)
	e.mu.Lock()
	e.pending = e.options.Clock.Now()
	e.mu.Unlock()
	return ctx, func() {
		cancel()
		e.mu.Lock()
		e.pending = time.Time{}
		e.mu.Unlock()
	}
}

func (e *Elector) sleep(ctx context.Context, d time.Duration) {
	timer := e.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
