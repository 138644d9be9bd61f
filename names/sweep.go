package names

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/bound"
	"github.com/homeostat/homeostat/internal/guard"
)

// ErrNotSwept is the error of [Sweep.Ready] until the first sweep has ended,
// unless the lister of that sweep ignores the end of its context.
var ErrNotSwept = errors.New("the first sweep for orphans has not ended yet")

// A Target is a cache of objects and the queue of a controller that reconciles
// them. Its methods are called by one goroutine at a time.
type Target interface {
	// Sync returns nil once the cache holds its first list. If possible, it
	// also waits until the cache is at least as new as the server was at the
	// call.
	Sync(ctx context.Context) error
	// Find returns the UID of the key's cached object, and false if there is no
	// such object.
	Find(key types.NamespacedName) (types.UID, bool)
	// Orphan enqueues the key with a lower priority than live changes. It must
	// not block. If the object was replaced, the first reconcile sees it as
	// deleted, and the next one as new.
	Orphan(orphan Orphan)
}

// An Orphan is a name whose object is probably deleted.
type Orphan struct {
	Name
	// Replaced means that an object with that key exists, but has a different
	// UID.
	Replaced bool
}

// Stats counts what a [Sweep] has done since it was made.
type Stats struct {
	// Sweeps counts sweeps that have succeeded, and Failures counts sweeps that
	// have failed. Refusals counts the failures that were refusals by the
	// safety limit.
	Sweeps, Failures, Refusals uint64
	// Orphans counts the orphans that successful sweeps have enqueued. An
	// orphan is counted again in every sweep that enqueues it.
	Orphans uint64
	// Refused is how many orphans the safety limit refused in the last refused
	// sweep. It is zero if a sweep has succeeded since.
	Refused int
	// Known is the number of distinct names in scope in the last sweep that
	// compared the names, even if it was then refused. OutOfScope is the number
	// of the other names in that sweep.
	Known, OutOfScope int
	// LastSuccess is when the last successful sweep ended. Zero if no sweep has
	// succeeded.
	LastSuccess time.Time
}

// A Sweep compares the names that an outside system knows with a cache, at
// start and periodically, and enqueues the orphans.
//
// Make one with [NewSweep]. Its methods are safe for concurrent use; only one
// Run or Once sweeps at a time.
type Sweep struct {
	lister  Lister
	target  Target
	options Options
	wake    chan struct{}

	sweeping sync.Mutex // held during a sweep, so that only one runs; it guards no field

	mu        sync.Mutex // guards the fields below
	stats     Stats
	err       error     // why orphans are not cleaned up; see Ready
	listing   time.Time // when the listing began; zero between listings
	confirmed int
}

// NewSweep returns a sweep that compares the names of l with the cache of
// target, and enqueues the orphans in the queue of target. It starts no
// goroutine and sends no request.
//
// NewSweep returns a joined error that names all invalid arguments and options.
func NewSweep(l Lister, target Target, o *Options) (*Sweep, error) {
	options := o.withDefaults()
	errs := []error{options.validate()}
	if bound.IsNil(l) {
		errs = append(errs, errors.New("lister is nil: use Objects, Func or Union"))
	}
	if bound.IsNil(target) {
		errs = append(errs, errors.New("target is nil"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("making a sweep: %w", err)
	}
	return &Sweep{
		lister: l, target: target, options: options, wake: make(chan struct{}, 1),
		err: ErrNotSwept, confirmed: options.Confirmed,
	}, nil
}

// Run sweeps at once and then periodically until ctx ends, and returns nil.
// Failed sweeps are logged to the logger of ctx and retried with back-off.
func (s *Sweep) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	pause := s.options.BackoffBase
	for ctx.Err() == nil {
		enqueued, err := s.Once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		next := wait.Jitter(s.options.Period, jitter)
		if err != nil {
			next = wait.Jitter(min(pause, s.options.Period), jitter)
			pause = min(2*pause, s.options.BackoffCap)
			logger.Error(err, "sweep for orphans failed and cleaned nothing, retrying", "retryIn", next)
		} else {
			pause = s.options.BackoffBase
			logger.V(1).Info("swept for orphans", "orphans", enqueued)
		}
		select {
		case <-ctx.Done():
		case <-time.After(next):
		case <-s.wake:
		}
	}
	return nil
}

// Once sweeps now and returns how many orphans it enqueued: all of them, or 0
// and an error that explains why. It waits for a sweep that is already in
// progress.
//
// Once returns the errors of the lister and of the target's Sync, including
// their panics. It returns a [RefusedError] if the safety limit has refused the
// sweep. If the target's Orphan panics, Once returns the panic as an error, and
// the number of orphans that it enqueued before.
func (s *Sweep) Once(ctx context.Context) (enqueued int, err error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	err = guard.ErrGoexit
	defer func() { s.record(enqueued, err) }()
	return s.sweep(ctx)
}

// sweep does what Once does, except that it does not record the result. It
// recovers from a panic of the lister, the target or a function of the options.
func (s *Sweep) sweep(ctx context.Context) (enqueued int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = guard.Panicked(r)
		}
	}()
	orphans, err := s.find(ctx)
	for _, orphan := range orphans {
		if err == nil {
			s.target.Orphan(orphan)
			enqueued++
		}
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok && s.options.Refused != nil {
		s.options.Refused(refused)
	}
	return enqueued, err
}

// record counts a sweep for Stats and Ready. err is the reason why the sweep
// failed, or nil if it succeeded. enqueued counts only after a success.
func (s *Sweep) record(enqueued int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if err == nil {
		s.stats.Sweeps++
		s.stats.Refused = 0
		s.stats.Orphans += uint64(enqueued)
		s.stats.LastSuccess = time.Now()
		return
	}
	s.stats.Failures++
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		s.stats.Refusals++
		s.stats.Refused = refused.Orphans
	}
}

// Confirm lets the next sweep, and only that one, enqueue up to this many
// orphans although they exceed the safety limit, and makes Run sweep at once.
// For example, pass the Orphans of a [RefusedError]. The confirmation stays for
// a later sweep if the next one fails before it has compared the names, or if
// all its names are out of scope.
func (s *Sweep) Confirm(orphans int) {
	s.mu.Lock()
	s.confirmed = orphans
	s.mu.Unlock()
	s.Wake()
}

// Wake makes Run sweep at once. Call it, for example, when the scope grows.
func (s *Sweep) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Ready returns nil if the last sweep succeeded. Otherwise it returns why
// orphans are not cleaned up: [ErrNotSwept] before the first sweep has ended,
// or the error of the last one. While a lister ignores the end of its context,
// Ready returns an error about the lister, even if the last sweep succeeded.
func (s *Sweep) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if elapsed := time.Since(s.listing); !s.listing.IsZero() && elapsed > s.options.Timeout {
		return fmt.Errorf("listing names has taken %v, although its context ended after names.Options.Timeout (%v)",
			elapsed.Truncate(time.Second), s.options.Timeout)
	}
	return s.err
}

// Stats returns the counters, for metrics.
func (s *Sweep) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// find returns the orphans, in the order of their keys. It returns a
// [RefusedError] if there are implausibly many.
func (s *Sweep) find(ctx context.Context) ([]Orphan, error) {
	known, err := s.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing names: %w", err)
	}
	if err := s.sync(ctx); err != nil { // the cache must be newer than the names, so it comes second
		return nil, fmt.Errorf("waiting for the cache: %w", err)
	}
	known = slices.Clone(known) // it belongs to the lister
	slices.SortFunc(known, func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	inScope, outOfScope := 0, 0
	var orphans []Orphan
	for len(known) > 0 {
		size := 1
		for size < len(known) && known[size].Key == known[0].Key {
			size++
		}
		group := known[:size]
		known = known[size:]
		if !s.inScope(group[0]) {
			outOfScope++
			continue
		}
		inScope++
		if orphan, ok := s.judge(group); ok {
			orphans = append(orphans, orphan)
		}
	}
	s.mu.Lock()
	s.stats.Known, s.stats.OutOfScope = inScope, outOfScope
	s.mu.Unlock()
	return orphans, s.checkLimit(orphans, inScope, outOfScope)
}

func (s *Sweep) list(ctx context.Context) ([]Name, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, s.timeout("the lister"))
	defer cancel()
	s.setListing(time.Now())
	defer s.setListing(time.Time{})
	known, err := list(ctx, s.lister)
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err) // even if err is nil: some names may be missing
	}
	return known, err
}

func (s *Sweep) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, s.timeout("the cache"))
	defer cancel()
	return s.target.Sync(ctx)
}

func (s *Sweep) timeout(subject string) error {
	return fmt.Errorf("%s took longer than names.Options.Timeout (%v)", subject, s.options.Timeout)
}

func (s *Sweep) setListing(start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = start
}

// inScope reports whether this program cleans up a name. If Options.Scope
// panics, it panics with a text that has the name.
func (s *Sweep) inScope(name Name) bool {
	defer func() {
		if r := recover(); r != nil {
			panic(fmt.Sprintf("names.Options.Scope for the name %q: %v", name.Key, r))
		}
	}()
	if len(s.options.Namespaces) > 0 && !slices.Contains(s.options.Namespaces, name.Key.Namespace) {
		return false
	}
	return s.options.Scope == nil || s.options.Scope(name)
}

// judge reports whether a key is an orphan, and returns the orphan. group
// contains the names that have this key. If one of them may be the name of the
// cached object, the key is not an orphan.
func (s *Sweep) judge(group []Name) (Orphan, bool) {
	cached, found := s.target.Find(group[0].Key)
	if !found {
		return Orphan{Name: group[0]}, true
	}
	for _, name := range group {
		if name.UID == "" || name.UID == cached || cached == "" {
			return Orphan{}, false
		}
	}
	return Orphan{Name: group[0], Replaced: true}, true
}

// checkLimit refuses an implausible number of orphans, unless it was confirmed.
// A confirmation expires with the next sweep. It does not expire if all names
// are out of scope: for example, a replica that owns no shards yet has such a
// sweep.
func (s *Sweep) checkLimit(orphans []Orphan, known, outOfScope int) error {
	if known == 0 && outOfScope > 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	confirmed := s.confirmed
	s.confirmed = 0
	n, count := len(orphans), s.options.MaxCount
	if count == 0 {
		count = defaultMaxCount
		if n == known {
			count = defaultMaxOfAll
		}
	}
	if n <= count || float64(n) <= s.options.MaxShare*float64(known) || n <= confirmed {
		return nil
	}
	return &RefusedError{
		Orphans: n, Known: known, Example: orphans[0].Name, MaxCount: count, MaxShare: s.options.MaxShare,
	}
}
