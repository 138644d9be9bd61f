package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// Elector turns a Lease into contexts. Any number of functions may run under
// it, each in its own call of [Elector.Run]: they share one Lease, which is
// campaigned for while at least one of them runs. It is safe for concurrent use.
type Elector struct {
	lease   Lease
	options Options
	holder  string         // Identity and a random suffix
	member  *record.Member // of shards; nil for a plain elector
	verbs   string         // what the client needs on leases

	current atomic.Pointer[term] // nil while we do not lead; read by fences

	mu        sync.Mutex // guards what follows
	campaign  *campaign
	published chan struct{} // closed when current gets a term
	seen      record.Observation
	problem   error     // why the last attempt failed; nil when it did not
	pending   time.Time // when the request in flight was sent
	ended     time.Time // when the last leadership ended while functions ran
	quiet     time.Time // until when a request of an earlier term may still arrive
}

// campaign is the goroutine that stands for all calls of Run.
type campaign struct {
	cancel    context.CancelFunc
	done      chan struct{}
	runs      int
	closing   bool
	abandoned bool // a function panicked: who knows what still runs
}

// New checks lease and options. It starts nothing.
func New(lease Lease, o *Options) (*Elector, error) {
	set := o.withDefaults()
	if err := errors.Join(lease.validate(), set.validate()); err != nil {
		return nil, fmt.Errorf("making an elector for lease %q: %w", lease.key(), err)
	}
	e := &Elector{
		lease:     lease,
		options:   set,
		holder:    fmt.Sprintf("%s_%08x", lease.Identity, rand.Uint32()),
		verbs:     "get, create and update",
		published: make(chan struct{}),
	}
	if m, ok := lease.Client.(*record.Member); ok {
		e.member, e.verbs = m, m.Verbs
		e.holder = m.Join(e.holder, record.Timing{
			LeaseDuration: set.LeaseDuration, RequestTimeout: set.RequestTimeout,
			RetryPeriod: set.RetryPeriod, Clock: set.Clock,
		})
	}
	return e, nil
}

// Run calls fn each time that this replica leads, with a context that is the
// leadership: it ends with a cause that wraps [ErrLost], [ErrStopping] or
// [ErrFenced]. The lease is released only after fn has returned, and renewed
// until then if ctx ended. A lost leadership is campaigned for again.
//
// Errors: that of fn, if fn returned it while it led or while ctx ended; nil if
// ctx ended or fn is done. An error that fn returned because of a lost
// leadership is logged.
func (e *Elector) Run(ctx context.Context, fn func(context.Context) error) error {
	c := e.join(ctx)
	clean := false
	defer func() { e.leave(c, clean) }()
	for {
		t := e.enter(ctx)
		if t == nil {
			clean = true
			return nil
		}
		err := e.lead(ctx, t, fn)
		if ctx.Err() != nil || t.ctx.Err() == nil {
			clean = true
			return unlessStopped(ctx, err)
		}
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrLost) && !errors.Is(err, ErrFenced) {
			klog.FromContext(ctx).Error(err, "work ended with its leadership")
		}
	}
}

// lead calls fn under a term that was entered.
func (e *Elector) lead(ctx context.Context, t *term, fn func(context.Context) error) error {
	defer t.members.Done()
	lead, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), termKey{}, t))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(fmt.Errorf("%w: %w", ErrStopping, context.Cause(ctx))) })()
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	return fn(lead)
}

// enter waits for a term and joins it; nil when ctx ended first.
func (e *Elector) enter(ctx context.Context) *term {
	for ctx.Err() == nil {
		e.mu.Lock()
		t, published := e.current.Load(), e.published
		if t != nil && t.ctx.Err() == nil {
			t.members.Add(1)
			e.mu.Unlock()
			return t
		}
		e.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-published:
		}
	}
	return nil
}

func (e *Elector) join(ctx context.Context) *campaign {
	for {
		e.mu.Lock()
		c := e.campaign
		if c == nil {
			c = &campaign{done: make(chan struct{})}
			var run context.Context
			run, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
			e.campaign = c
			go e.run(run, c)
		}
		if !c.closing {
			c.runs++
			e.mu.Unlock()
			return c
		}
		e.mu.Unlock()
		<-c.done
	}
}

// leave ends the campaign with its last run, and waits for the release.
func (e *Elector) leave(c *campaign, clean bool) {
	e.mu.Lock()
	c.runs--
	c.abandoned = c.abandoned || !clean
	c.closing = c.runs == 0
	last := c.closing
	e.mu.Unlock()
	if last {
		c.cancel()
		<-c.done
	}
}

func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrStopping) ||
		errors.Is(err, ErrLost) || errors.Is(err, ErrFenced) || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}
