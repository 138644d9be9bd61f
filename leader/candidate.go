package leader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// candidate makes the requests of one Lease and remembers what it saw. All
// methods but those of Elector's status are called by the campaign's goroutine.
type candidate struct {
	lease   Lease
	options Options
	owner   any            // whose requests these are, for its fence
	member  *record.Member // of shards; nil for a plain elector
	verbs   string         // what the client needs on leases

	mu      sync.Mutex // guards the fields below
	holder  string     // Identity, a random suffix and the term of a member
	seen    record.Observation
	problem error     // why the last attempt failed; nil if it did not
	pending time.Time // when the request in flight was sent; zero if none is
	quiet   time.Time // until when a request of an earlier term may still arrive
}

func newCandidate(l Lease, o Options, owner any) *candidate {
	c := &candidate{lease: l, options: o, owner: owner, verbs: "get, create and update"}
	c.holder = fmt.Sprintf("%s_%08x", l.Identity, rand.Uint32())
	if m, ok := l.Client.(*record.Member); ok {
		c.member, c.verbs = m, m.Verbs
		c.holder = m.Join(c.holder, record.Timing{
			LeaseDuration: o.LeaseDuration, RequestTimeout: o.RequestTimeout, RetryPeriod: o.RetryPeriod, Clock: o.Clock,
		})
	}
	return c
}

// try reads the Lease once and takes it if it is free. It reports whether it
// did. Its requests do not end with ctx: an answer that is never read could
// leave the Lease taken.
func (c *candidate) try(ctx context.Context) (grant, bool) {
	lease, err := c.get(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		c.report(ctx, c.explain("reading", err))
		return grant{}, false
	}
	c.observe(lease)
	if c.untilFree() > 0 {
		c.report(ctx, c.twin())
		return grant{}, false
	}
	sent := c.options.Clock.Now()
	if lease == nil {
		lease, err = c.create(ctx, sent)
	} else {
		lease, err = c.update(ctx, record.Taken(lease, c.holder, c.options.LeaseDuration, sent))
	}
	switch {
	case err == nil:
		c.observe(lease)
		c.report(ctx, nil)
		return grant{lease: lease, sent: sent}, true
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // another replica was faster
		return grant{}, false
	default:
		c.report(ctx, c.explain("taking", err))
		return grant{}, false
	}
}

// untilFree returns how long the Lease may not be taken yet: for as long as the
// holder may still lead by this replica's clock, unless that is this process;
// and until requests of this process's last term can no longer arrive.
func (c *candidate) untilFree() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.seen.FreeAt(c.options.LeaseDuration)
	if c.ours(record.Holder(c.seen.Lease)) {
		at = c.seen.Since
	}
	if c.quiet.After(at) {
		at = c.quiet
	}
	return at.Sub(c.options.Clock.Now())
}

// ours reports whether a holder is this process, in whatever term.
func (c *candidate) ours(holder string) bool { return holder == c.holder || c.member.Was(holder) }

// pause returns how long to wait before the next try: until the Lease becomes
// free, or a retry period with jitter, so that replicas that started together
// drift apart.
func (c *candidate) pause() time.Duration {
	period := c.options.RetryPeriod + rand.N(c.options.RetryPeriod/5+1)
	if left := c.untilFree(); left > 0 {
		return min(left, period)
	}
	return period
}

// observe notes the Lease of an answer that has just arrived.
func (c *candidate) observe(lease *coordinationv1.Lease) {
	now := c.options.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = c.seen.See(lease, now)
}

// twin returns an error if another live process has this replica's identity.
func (c *candidate) twin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder := record.Holder(c.seen.Lease)
	if c.ours(holder) || !strings.HasPrefix(holder, c.lease.Identity+"_") || !c.seen.Since.After(c.seen.First) {
		return nil
	}
	return fmt.Errorf("campaigning for lease %q: Lease.Identity %q is also that of the live replica %q: "+
		"give each replica its own, such as the name of its pod", c.lease.key(), c.lease.Identity, holder)
}

// report keeps why an attempt failed, and logs it if it differs from the last.
func (c *candidate) report(ctx context.Context, err error) {
	c.mu.Lock()
	news := err != nil && (c.problem == nil || c.problem.Error() != err.Error())
	c.problem = err
	c.mu.Unlock()
	if news {
		klog.FromContext(ctx).Error(err, "lease request failed, retrying", "lease", c.lease.key())
	}
}

func (c *candidate) explain(doing string, err error) error {
	return record.Explain(doing, c.lease.key(), c.verbs, err)
}

// nextTerm ends a term, requests of which may arrive until quiet. A member has
// a new name in the next one.
func (c *candidate) nextTerm(quiet time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = quiet
	if c.member != nil {
		c.holder = c.member.NextHolder()
	}
}

// renew prolongs the term, or ends it if another replica holds the Lease. Trust
// counts from the moment that the request was sent: no other replica can have
// seen the change before.
func (c *candidate) renew(ctx context.Context, t *term) error {
	sent := c.options.Clock.Now()
	lease, err := c.update(ctx, record.Renewed(t.record(), sent))
	if apierrors.IsConflict(err) {
		if lease, err = c.get(ctx); err == nil && record.Holder(lease) == c.holder {
			// An earlier answer was lost, or another client edited the Lease.
			sent = c.options.Clock.Now()
			lease, err = c.update(ctx, record.Renewed(lease, sent))
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		c.observe(nil)
		t.cancel(fmt.Errorf("%w: it was deleted", ErrLost))
		return nil
	case err != nil:
		return c.explain("renewing", err)
	case record.Holder(lease) != c.holder:
		c.observe(lease)
		t.cancel(fmt.Errorf("%w: %q holds it", ErrLost, record.Holder(lease)))
		return nil
	}
	c.observe(lease)
	t.renewed(grant{lease: lease, sent: sent})
	return nil
}

// release clears the holder, so that the next leader need not wait for the
// Lease to expire. If that fails, it expires.
func (c *candidate) release(ctx context.Context, t *term) {
	log := klog.FromContext(ctx).WithValues("lease", c.lease.key())
	lease := t.record()
	for range record.ReleaseTries {
		after, err := c.update(ctx, record.Released(lease, 0, c.options.Clock.Now()))
		if err == nil {
			c.observe(after)
			log.Info("lease released")
			return
		}
		if apierrors.IsConflict(err) {
			lease, err = c.get(ctx)
		}
		if err != nil {
			log.Info("lease left to expire: releasing it failed", "cause", err.Error())
			return
		}
		c.observe(lease)
		if record.Holder(lease) != c.holder {
			return
		}
	}
}

func (c *candidate) get(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, end := c.request(ctx)
	defer end()
	lease, err := c.lease.Client.Leases(c.lease.Namespace).Get(ctx, c.lease.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err // clients return an empty Lease with it
	}
	return lease, nil
}

func (c *candidate) create(ctx context.Context, now time.Time) (*coordinationv1.Lease, error) {
	ctx, end := c.request(ctx)
	defer end()
	lease := record.Taken(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.lease.Namespace, Name: c.lease.Name},
	}, c.holder, c.options.LeaseDuration, now)
	c.member.Mark(lease)
	return c.lease.Client.Leases(c.lease.Namespace).Create(ctx, lease, metav1.CreateOptions{})
}

func (c *candidate) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, end := c.request(ctx)
	defer end()
	c.member.Mark(lease)
	return c.lease.Client.Leases(c.lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
}

// request returns a context for one request of the Lease, which passes the
// elector's own fence, and a function that ends it.
func (c *candidate) request(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(record.WithOwn(ctx, c.owner), c.options.RequestTimeout)
	c.mark(c.options.Clock.Now())
	return ctx, func() {
		cancel()
		c.mark(time.Time{})
	}
}

func (c *candidate) mark(pending time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = pending
}
