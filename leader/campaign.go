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

	"github.com/homeostat/homeostat/leader/internal/record"
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
		record.Sleep(ctx, e.options.Clock, e.pause())
	}
}

// try looks at the Lease once and takes it if it is free. Its requests are not
// cut off by ctx: an answer that nobody reads would leave the Lease taken.
func (e *Elector) try(ctx context.Context) (grant, bool) {
	lease, err := e.get(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		e.failed(ctx, e.explain("reading", err))
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
		lease, err = e.update(ctx, record.Taken(lease, e.holder, e.options.LeaseDuration, sent))
	}
	switch {
	case err == nil:
		e.observe(lease)
		e.failed(ctx, nil)
		return grant{lease: lease, sent: sent}, true
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return grant{}, false // another was faster
	default:
		e.failed(ctx, e.explain("taking", err))
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
	at := e.seen.FreeAt(e.options.LeaseDuration)
	if e.ours(record.Holder(e.seen.Lease)) {
		at = e.seen.Since
	}
	if e.quiet.After(at) {
		return e.quiet
	}
	return at
}

// ours reports whether a holder is this process, in whatever term.
func (e *Elector) ours(holder string) bool { return holder == e.holder || e.member.Was(holder) }

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
	e.seen = e.seen.See(lease, now)
}

// twin is the complaint about another live process with our identity.
func (e *Elector) twin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	holder := record.Holder(e.seen.Lease)
	if e.ours(holder) || !strings.HasPrefix(holder, e.lease.Identity+"_") || !e.seen.Since.After(e.seen.First) {
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
	ctx, end := e.request(ctx)
	defer end()
	lease, err := e.lease.Client.Leases(e.lease.Namespace).Get(ctx, e.lease.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return lease, nil
}

func (e *Elector) create(ctx context.Context, now time.Time) (*coordinationv1.Lease, error) {
	ctx, end := e.request(ctx)
	defer end()
	lease := record.Taken(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.lease.Namespace, Name: e.lease.Name},
	}, e.holder, e.options.LeaseDuration, now)
	e.member.Mark(lease)
	return e.lease.Client.Leases(e.lease.Namespace).Create(ctx, lease, metav1.CreateOptions{})
}

func (e *Elector) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, end := e.request(ctx)
	defer end()
	e.member.Mark(lease)
	return e.lease.Client.Leases(e.lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
}

// request returns a context for one request of the Lease: it outlives the
// campaign, but not the timeout, and passes our own fence.
func (e *Elector) request(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(record.WithOwn(ctx, e), e.options.RequestTimeout)
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

func (e *Elector) explain(doing string, err error) error {
	return record.Explain(doing, e.lease.key(), e.verbs, err)
}

// nextTerm gives the holder of a member's next term its name.
func (e *Elector) nextTerm() {
	if e.member == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holder = e.member.NextHolder()
}
