package names

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// A Sweep compares the names that an outside system knows with a cache, at
// start and periodically, and hands on the orphans.
//
// It is made by [NewSweep]. Its methods are safe for concurrent use; one Run or
// Once works at a time.
type Sweep struct {
	lister  Lister
	target  Target
	options Options
	wake    chan struct{}

	one sync.Mutex // held during a sweep, so it guards no field

	mu        sync.Mutex // guards what follows
	stats     Stats
	err       error
	listing   time.Time // since when names are being listed; zero if they are not
	confirmed int
}

// NewSweep returns a sweep of the names of l for target. It starts nothing.
//
// Errors: every fault of the arguments, joined.
func NewSweep(l Lister, target Target, o *Options) (*Sweep, error) {
	options := o.withDefaults()
	faults := []error{options.validate()}
	if l == nil {
		faults = append(faults, errors.New("lister is nil: use Objects, Func or Union"))
	}
	if target == nil {
		faults = append(faults, errors.New("target is nil"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("making a sweep: %w", err)
	}
	return &Sweep{
		lister: l, target: target, options: options, wake: make(chan struct{}, 1),
		err: ErrNotSwept, confirmed: options.Confirmed,
	}, nil
}

// Run sweeps now and then periodically until ctx ends, and returns nil. Sweeps
// that fail are logged and retried with back-off.
func (s *Sweep) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	pause := s.options.FirstRetry
	for ctx.Err() == nil {
		handed, err := s.Once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait := jittered(s.options.Period)
		if err != nil {
			wait = jittered(min(pause, s.options.Period))
			pause = min(2*pause, s.options.MaxRetry)
			logger.Error(err, "sweep for orphans has failed; nothing is cleaned", "retryIn", wait)
		} else {
			pause = s.options.FirstRetry
			logger.V(1).Info("swept for orphans", "orphans", handed)
		}
		s.rest(ctx, wait)
	}
	return nil
}

func (s *Sweep) rest(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.wake:
	}
}

// jittered adds up to a tenth.
func jittered(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/10+1))
}

// Once sweeps now and returns how many orphans were handed on: all of them, or
// none and the reason.
func (s *Sweep) Once(ctx context.Context) (handed int, err error) {
	s.one.Lock()
	defer s.one.Unlock()
	err = errGoexit
	defer func() { s.record(handed, err) }()
	return s.sweep(ctx)
}

var errGoexit = errors.New("runtime.Goexit was called, as require and t.FailNow do in tests: return an error instead")

// sweep is Once without its record. A panic of the lister, the target or a
// function of the options fails it.
func (s *Sweep) sweep(ctx context.Context) (handed int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	orphans, err := s.find(ctx)
	for _, orphan := range orphans {
		if err == nil {
			s.target.Orphan(orphan)
			handed++
		}
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok && s.options.Refused != nil {
		s.options.Refused(refused)
	}
	return handed, err
}

func (s *Sweep) record(handed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if err == nil {
		s.stats.Sweeps++
		s.stats.Refused = 0
		s.stats.Orphans += uint64(handed)
		s.stats.LastSuccess = time.Now()
		return
	}
	s.stats.Failures++
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		s.stats.Refusals++
		s.stats.Refused = refused.Orphans
	}
}

// Confirm lets the next sweep hand on up to that many orphans past the brake, once,
// and makes Run sweep at once. The [RefusedError] says how many there are.
func (s *Sweep) Confirm(orphans int) {
	s.mu.Lock()
	s.confirmed = orphans
	s.mu.Unlock()
	s.Wake()
}

// Wake makes Run sweep at once, for example because more names are in scope now.
func (s *Sweep) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Ready returns nil if the last sweep ended well, and otherwise why orphans are
// not being cleaned.
func (s *Sweep) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing.IsZero() {
		return s.err
	}
	if since := time.Since(s.listing); since > s.options.Timeout {
		return fmt.Errorf("listing names has taken %v, although its context ended after Options.Timeout (%v)",
			since.Truncate(time.Second), s.options.Timeout)
	}
	return s.err
}

// Stats returns the counters, for metrics.
func (s *Sweep) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}
