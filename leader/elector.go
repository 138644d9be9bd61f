package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// Elector campaigns for a Lease, and runs functions with a context that ends
// when the Lease is lost. Any number of functions may run, each in its own call
// of [Elector.Run]. They share one Lease, for which the elector campaigns while
// at least one of them runs. It is safe for concurrent use.
type Elector struct {
	options   Options
	candidate *candidate

	current atomic.Pointer[term] // nil while this replica does not lead; read by fences

	mu        sync.Mutex // guards the fields below
	campaign  *campaign
	published chan struct{} // closed, and replaced, when this replica begins to lead
	ended     time.Time     // when a leadership was lost; zero once its functions have returned
	ledUntil  time.Time     // the time until which this replica led in its last term
}

// campaign is the goroutine that campaigns and leads, for all calls of Run
// together.
type campaign struct {
	cancel    context.CancelFunc
	done      chan struct{}
	runs      int
	closing   bool
	abandoned bool // whether a function panicked; goroutines that it started may still run
}

// New returns an elector for lease. It starts no goroutine and sends no
// request.
//
// New returns all mistakes in lease and options as one joined error.
func New(lease Lease, o *Options) (*Elector, error) {
	set := o.withDefaults()
	if err := errors.Join(lease.validate(), set.validate()); err != nil {
		return nil, fmt.Errorf("making an elector for lease %q: %w", lease.key(), err)
	}
	e := &Elector{options: set, published: make(chan struct{})}
	e.candidate = newCandidate(lease, set, e)
	return e, nil
}

// Parts returns the methods that only package shard needs.
func (e *Elector) Parts() record.Parts { return parts{e} }

type parts struct{ elector *Elector }

func (p parts) Join(m *record.Member) { p.elector.candidate.join(m) }

// Run campaigns for the Lease, leads once and returns. It is [New] and
// [Elector.RunOnce] in one call.
func Run(ctx context.Context, lease Lease, o *Options, fn func(context.Context) error) error {
	e, err := New(lease, o)
	if err != nil {
		return err
	}
	return e.RunOnce(ctx, fn)
}

// RunOnce is [Elector.Run] for one leadership. End the process if it returns an
// error. It is for a controller that cannot be run twice because it shuts its
// queue down, such as k8s.io/sample-controller: in a second term such a
// controller would hold the Lease without doing any work.
//
// RunOnce returns the error of fn, or an error that wraps [ErrLost] or
// [ErrFenced] if the leadership was lost. It returns nil if ctx ended, unless
// fn then returned an error that has a different cause.
func (e *Elector) RunOnce(ctx context.Context, fn func(context.Context) error) error {
	return e.runTerms(ctx, true, fn)
}

// Run calls fn each time this replica leads. The context of fn is the
// leadership: it ends with a cause that wraps [ErrLost], [ErrStopping] or
// [ErrFenced]. The Lease is released only after fn has returned. When ctx ends,
// the Lease is still renewed until fn has returned.
//
// After a lost leadership Run campaigns again and calls fn again. Objects that
// end with a term, such as a queue that is shut down, must therefore be made in
// fn. Run returns when fn has returned and ctx has ended, or when fn returned
// while this replica led.
//
// If fn returns while this replica leads, Run returns the error of fn, or nil.
// After the end of ctx, Run returns nil, unless fn then returns an error that
// has a different cause. An error that fn returns after the leadership was lost
// is logged instead.
func (e *Elector) Run(ctx context.Context, fn func(context.Context) error) error {
	return e.runTerms(ctx, false, fn)
}

// runTerms calls fn for one term after the other, until ctx ends or fn returns
// before its term has ended. If single is true, it calls fn for one term only.
func (e *Elector) runTerms(ctx context.Context, single bool, fn func(context.Context) error) error {
	if fn == nil {
		return fmt.Errorf("campaigning for lease %q: the function to run is nil", e.candidate.lease.key())
	}
	c, working := e.join(ctx), false
	defer func() { e.leave(c, working) }()
	for {
		t := e.enter(ctx)
		if t == nil {
			return nil
		}
		working = true
		err := e.lead(ctx, t, fn)
		working = false
		ended := err == nil || isEnd(err)
		switch {
		case ctx.Err() != nil:
			if ended || errors.Is(err, ErrStopping) || errors.Is(err, ctx.Err()) {
				return nil
			}
			return err
		case t.ctx.Err() == nil:
			return err
		case single:
			lost := fmt.Errorf("leading under lease %q: %w", e.candidate.lease.key(), context.Cause(t.ctx))
			if ended {
				return lost
			}
			return errors.Join(lost, err)
		case !ended:
			klog.FromContext(ctx).Error(err, "work failed after the leadership ended")
		}
	}
}

// lead calls fn under a term. The caller has entered the term.
func (e *Elector) lead(ctx context.Context, t *term, fn func(context.Context) error) error {
	defer t.members.Done()
	lead, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), termKey{}, t))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(fmt.Errorf("%w: %w", ErrStopping, context.Cause(ctx))) })()
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	return fn(lead)
}

// enter waits for a term and enters it. It returns nil if ctx ended first.
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

// join adds a call of Run to the running campaign. If no campaign is running,
// join starts one.
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

// leave removes one call of Run from the campaign. If it is the last one, leave
// ends the campaign and waits until the Lease is released, or is left to
// expire. working reports whether the function of that call was still running.
// If it was, it has panicked.
func (e *Elector) leave(c *campaign, working bool) {
	e.mu.Lock()
	c.runs--
	c.abandoned = c.abandoned || working
	c.closing = c.runs == 0
	last := c.closing
	e.mu.Unlock()
	if last {
		c.cancel()
		<-c.done
	}
}

// run campaigns and leads until ctx ends. The method leave cancels ctx when the
// last call of Run is about to return.
func (e *Elector) run(ctx context.Context, c *campaign) {
	defer func() {
		e.mu.Lock()
		e.campaign = nil
		e.mu.Unlock()
		close(c.done)
	}()
	for ctx.Err() == nil {
		if g, ok := e.candidate.try(ctx); ok {
			e.hold(ctx, c, g)
		} else {
			record.Sleep(ctx, e.options.Clock, e.candidate.pause())
		}
	}
}

// hold leads until the term or ctx ends. Then it releases the Lease, unless
// this replica has lost the Lease, a function has panicked, or a request that
// was sent during the term can still arrive.
func (e *Elector) hold(ctx context.Context, c *campaign, g grant) {
	log := klog.FromContext(ctx).WithValues("lease", e.candidate.lease.key(), "identity", e.candidate.holder)
	t := newTerm(e, &e.options, g)
	var watch sync.WaitGroup
	watch.Go(t.watch)
	e.publish(t)
	log.Info("leading")
	e.renewUntilOver(ctx, t)
	lost := t.ctx.Err() != nil
	e.retire(t, ctx.Err() != nil)
	watch.Wait()
	e.mu.Lock()
	abandoned := c.abandoned
	e.mu.Unlock()
	arriving := t.flights.quietAt().Sub(e.options.Clock.Now())
	switch {
	case lost:
		log.Error(context.Cause(t.ctx), "leadership lost")
	case abandoned:
	case arriving > 0:
		log.Info("leaving the lease to expire: a request without an answer may still arrive", "within", arriving)
	default:
		e.candidate.release(ctx, t)
	}
	e.candidate.nextTerm(t.flights.quietAt())
}

// publish makes t the current term, and wakes the callers of enter that wait
// for a term.
func (e *Elector) publish(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current.Store(t)
	e.candidate.member.Begin(t.flights.cutUntil)
	close(e.published)
	e.published = make(chan struct{})
}

// retire lets no further functions enter the term, and waits for the functions
// that have entered it. If stopping is true, it then ends the term with
// [ErrStopping].
func (e *Elector) retire(t *term, stopping bool) {
	e.mu.Lock()
	now := e.options.Clock.Now()
	if t.ctx.Err() != nil {
		e.ended = now
	}
	if e.ledUntil = t.trustedUntil(); now.Before(e.ledUntil) {
		e.ledUntil = now
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

// renewUntilOver renews the Lease until the term or ctx ends. RetryPeriod
// counts from when the last renewal was sent, because slow answers must not use
// up the deadline.
func (e *Elector) renewUntilOver(ctx context.Context, t *term) {
	for sent := t.granted(); ctx.Err() == nil && t.ctx.Err() == nil; {
		e.pause(ctx, t, e.options.RetryPeriod-e.options.Clock.Since(sent))
		if ctx.Err() == nil && t.ctx.Err() == nil {
			sent = e.options.Clock.Now()
			if s, err := e.candidate.renew(ctx, t); ctx.Err() == nil { // a stop cuts a renewal off
				e.candidate.report(ctx, s, err)
			}
		}
	}
}

// pause waits for d. It returns early if the term or ctx ends, or if the Lease
// must be renewed at once.
func (e *Elector) pause(ctx context.Context, t *term, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := e.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-t.ctx.Done():
	case <-e.candidate.member.Nudged():
	case <-timer.C():
	}
}
