package references

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat/homeostat/informer/internal/readers"
	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/tree"
)

const (
	// mostOpening is how many requests to list or to watch may be under way,
	// and openingPause is the time between the beginnings of two of them. This
	// keeps a server that has restarted from receiving all requests at once.
	mostOpening  = 16
	openingPause = 10 * time.Millisecond
	// referenceTimeout bounds each request for a list.
	referenceTimeout = 30 * time.Second
	// shortestWatch is the least time after which the server ends a watch. The
	// longest time is twice as long, because watches should not end together.
	shortestWatch = 5 * time.Minute
)

var (
	errNotHeld  = errors.New("nothing refers to the object any longer")
	errWatchEnd = errors.New("the watch ended before its timeout")
)

// session is the state of a Set from the first call of Run until the last call
// has ended.
type session struct {
	ctx     context.Context //nolint:containedctx // it outlives the call of Run that began it
	cancel  context.CancelFunc
	log     logr.Logger
	running sync.WaitGroup
	readers readers.Readers
	closing sync.WaitGroup // counts connections that are being closed
	wake    chan struct{}
	ended   chan struct{}

	// Set.mu guards the fields below.

	users    int // number of active calls of Run
	stopping bool
	ready    []*reference // references to be listed or watched
	openers  int          // number of goroutines that list and watch
	next     time.Time    // when the next request may begin
}

func (s *session) wakeUp() {
	if s == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run watches the held objects until ctx ends. Calls may overlap, as for an
// informer. The first call starts the watches. The last call to end stops them,
// and returns an error for each object that was modified in place. A call that
// begins while the watches are being stopped waits until they have stopped, and
// then starts them again. joined is called when the call takes part in the
// watches. It is not called if ctx ends before that.
func (r *Set) Run(ctx context.Context, joined func()) error {
	for {
		r.mu.Lock()
		s := r.session
		if s == nil {
			s = &session{wake: make(chan struct{}, 1), ended: make(chan struct{})}
			s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
			r.session = s
			s.log = r.cache.Begin(ctx)
			s.running.Go(func() { r.schedule(s) })
		}
		if !s.stopping {
			s.users++
			r.mu.Unlock()
			joined()
			<-ctx.Done()
			return r.leave(ctx, s)
		}
		r.mu.Unlock()
		select {
		case <-s.ended:
		case <-ctx.Done():
			return nil
		}
	}
}

// leave ends the session if it has no other user.
func (r *Set) leave(ctx context.Context, s *session) error {
	r.mu.Lock()
	if s.users--; s.users > 0 {
		r.mu.Unlock()
		return nil
	}
	s.stopping = true
	r.mu.Unlock()
	s.cancel()
	s.running.Wait()

	r.mu.Lock()
	var unheld []*reference
	var released []*waiter
	for f := range r.watched() {
		if f.watch != nil {
			f.watch.stop()
		}
		released = append(released, f.takeDue(true)...)
		f.watch, f.listed, f.resumes, f.busy, f.err, f.failures = nil, false, false, false, nil, 0
		f.shares, f.gap, f.retryAt, f.unauthorized = false, false, time.Time{}, time.Time{}
		if f.holds == 0 && !f.isShared() {
			unheld = append(unheld, f)
		}
	}
	r.mu.Unlock()
	slices.SortFunc(unheld, compareReferences)
	s.readers.Wait()
	s.closing.Wait()
	for _, w := range released {
		w.call()
	}
	for _, f := range unheld {
		r.drop(f)
	}
	err := r.cache.End(ctx)
	r.mu.Lock()
	r.session = nil
	r.mu.Unlock()
	r.cache.Clear()
	close(s.ended)
	return err
}

// schedule lists and watches the references that are due, and drops the ones
// that are no longer held, until the session ends.
func (r *Set) schedule(s *session) {
	for {
		next, unheld := r.begin(s, time.Now())
		for _, f := range unheld {
			s.running.Go(func() { r.drop(f) }) // drop calls handlers, which may take long
		}
		var timeout <-chan time.Time
		if !next.IsZero() {
			timeout = time.After(max(time.Until(next), time.Millisecond))
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-timeout:
		}
	}
}

// begin starts the requests that are due now. It also ends the watches that
// have stalled, and the shared watches that are no longer needed. It returns
// the time of the next call, and the references that are to be dropped.
func (r *Set) begin(s *session, now time.Time) (next time.Time, unheld []*reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ready []*reference
	for f := range r.watched() {
		due := r.nextOf(f)
		if due.IsZero() || now.Before(due) {
			next = requests.Earlier(next, due)
			continue
		}
		switch unneeded := f.holds == 0 && !now.Before(f.unheld.Add(keepUnheld)); {
		case unneeded && f.isShared():
			r.dropShared(f.source)
			next = now // the references that shared the watch need a new watch
		case unneeded:
			f.dropping = true
			unheld = append(unheld, f)
		case r.isWatched(f):
			r.options.Counters.Stalls.Add(1)
			r.end(f, f.watch, requests.ErrNoAnswer)
			next = now
		default:
			f.busy = true
			ready = append(ready, f)
		}
	}
	slices.SortFunc(ready, compareReferences) // with the same references, requests have the same order
	slices.SortFunc(unheld, compareReferences)
	s.ready = append(s.ready, ready...)
	for range min(len(s.ready), mostOpening-s.openers) {
		s.openers++
		s.running.Go(func() { r.open(s) })
	}
	return next, unheld
}

// compareReferences orders references by their keys.
func compareReferences(a, b *reference) int {
	return tree.CompareKeys(a.key, b.key)
}

// nextOf returns the time of the next action for a reference, or zero if the
// reference needs no action. mu is held.
func (r *Set) nextOf(f *reference) (due time.Time) {
	if f.dropping || f.dropped {
		return time.Time{}
	}
	if f.holds == 0 {
		due = f.unheld.Add(keepUnheld)
	}
	switch {
	case f.busy || f.wrong != nil:
	case r.isWatched(f):
		if f.watch != nil {
			due = requests.Earlier(due, f.watch.stalls())
		}
	case f.isShared() || !f.source.shared.isAwaited():
		due = requests.Earlier(due, latest(f.retryAt, time.Unix(0, 1)))
	}
	return due
}

// isWatched reports whether a reference has a watch, and was listed since the
// last gap and the last call of Renew. If f is the watch of a namespace, it
// reports only whether that watch is open. mu is held.
func (r *Set) isWatched(f *reference) bool {
	if f.isShared() {
		return f.watch != nil
	}
	return (f.watch != nil || f.shares) && f.epoch == r.epoch && !f.gap
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// open lists and watches the references that are ready, until no reference is
// ready. If a handler ends the goroutine, another goroutine continues.
func (r *Set) open(s *session) {
	var f *reference
	err := requests.ErrGoexit
	finished := false
	defer func() {
		if finished {
			return
		}
		if f != nil {
			r.opened(s, f, err)
		}
		s.running.Go(func() { r.open(s) })
	}()
	for {
		var start time.Time
		if f, start = r.take(s); f == nil {
			finished = true
			return
		}
		if err = sleepUntil(s.ctx, start); err == nil {
			err = requests.ErrGoexit
			err = r.ensureWatch(s, f)
		}
		r.opened(s, f, err)
		f = nil
	}
}

// sleepUntil waits until t, or until ctx ends. If ctx has ended, it returns
// context.Cause(ctx).
func sleepUntil(ctx context.Context, t time.Time) error {
	if d := time.Until(t); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// take returns the next reference that is ready, and the time before which its
// request must not be sent. It returns nil if none is ready, or if the session
// ends. The caller must then end, because take no longer counts it in openers.
func (r *Set) take(s *session) (*reference, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(s.ready) == 0 || s.ctx.Err() != nil {
		s.openers--
		return nil, time.Time{}
	}
	f := s.ready[0]
	s.ready[0] = nil
	s.ready = s.ready[1:]
	start := latest(time.Now(), s.next)
	s.next = start.Add(openingPause)
	f.asked = start
	return f, start
}

// opened records how an attempt to list and watch a reference has ended. It
// notifies the handlers if a problem of the reference has begun or ended.
func (r *Set) opened(s *session, f *reference, err error) {
	r.mu.Lock()
	f.busy, f.asked = false, time.Time{}
	switch {
	case s.ctx.Err() != nil || f.dropped || errors.Is(err, errNotHeld):
		r.mu.Unlock()
		return
	case err == nil:
		f.err, f.refused, f.unauthorized = nil, false, time.Time{}
	default:
		r.lose(f)
		r.failed(f, err)
	}
	if f.isShared() {
		r.openedShared(s, f)
		r.session.wakeUp()
		r.mu.Unlock()
		return
	}
	wasTold, problem := f.told, f.problem()
	f.told = problem != nil
	r.session.wakeUp()
	r.mu.Unlock()
	if (problem != nil) != wasTold {
		if problem != nil {
			s.log.Error(problem, "watching a referenced object failed, retrying",
				"namespace", f.key.Namespace, "name", f.key.Name)
		}
		r.Notify(f.key)
	}
}

// failed records a failure, and when to try again. mu is held.
func (r *Set) failed(f *reference, err error) {
	if f.err == nil {
		f.failing = time.Now()
	}
	r.options.Counters.Failures.Add(1)
	f.err, f.refused = watchError{r.cache.Kind(), f.key, err}, isRefusal(err)
	if requests.CauseOf(err) != requests.CauseUnauthorized {
		f.unauthorized = time.Time{}
	} else if f.unauthorized.IsZero() {
		f.unauthorized = time.Now()
	}
	pause := r.options.BackoffBase << min(f.failures, 20)
	if limit := r.options.BackoffCap; pause <= 0 || pause > limit {
		pause = limit
	}
	f.failures++
	f.retryAt = time.Now().Add(wait.Jitter(pause/2, 1))
}
