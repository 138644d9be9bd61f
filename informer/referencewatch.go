package informer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat/homeostat/informer/internal/readers"
	"github.com/homeostat/homeostat/informer/internal/tree"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/bound"
)

const (
	// mostOpening references are listed or begin to be watched at once, and at
	// most one each openingPause: a server that has come back is not asked for
	// everything at once.
	mostOpening  = 16
	openingPause = 10 * time.Millisecond
	// referenceTimeout bounds each request for a list.
	referenceTimeout = 30 * time.Second
	// shortestWatch is how long a watch lasts at least, and twice as long at most.
	shortestWatch = 5 * time.Minute
)

var (
	errNotHeld  = errors.New("nothing refers to the object any longer")
	errWatchEnd = errors.New("the watch broke off")
)

// referenceSession is the time from the first call of run to the end of the
// last one.
type referenceSession[T Object] struct {
	ctx     context.Context //nolint:containedctx // it outlives the call of run that began it
	cancel  context.CancelFunc
	running sync.WaitGroup
	readers readers.Readers
	closing sync.WaitGroup // counts connections that are being closed
	wake    chan struct{}
	ended   chan struct{}

	// References.mu guards the fields below.
	users    int
	stopping bool
	ready    []*reference[T] // to be listed or watched
	openers  int             // goroutines that do that
	next     time.Time       // when the next of them may begin
}

func (s *referenceSession[T]) wakeUp() {
	if s == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run watches what is held until ctx ends, and returns the mutations that were
// found if it was the last user.
func (r *References[T]) run(ctx context.Context, joined func()) error {
	if err := r.wrong(); err != nil {
		return err
	}
	for {
		r.mu.Lock()
		s := r.session
		if s == nil {
			s = &referenceSession[T]{wake: make(chan struct{}, 1), ended: make(chan struct{})}
			s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
			r.session = s
			r.in.feed.useLog(ctx)
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
func (r *References[T]) leave(ctx context.Context, s *referenceSession[T]) error {
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
	var unheld []*reference[T]
	var released []*referenceWaiter
	for f := range r.watched() {
		if f.watch != nil {
			f.watch.stop()
		}
		released = append(released, f.due(true)...)
		f.watch, f.listed, f.resumes, f.busy, f.err, f.failures = nil, false, false, false, nil, 0
		f.shares, f.gap, f.again = false, false, time.Time{}
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
	_ = r.in.store.checkMutations() // adds to what finish returns
	err := r.in.store.detector.finish(ctx)
	r.mu.Lock()
	r.session = nil
	r.mu.Unlock()
	r.in.feed.clearIfUnused()
	close(s.ended)
	return err
}

// schedule begins what is due, and drops what is no longer held, until the
// session ends.
func (r *References[T]) schedule(s *referenceSession[T]) {
	for {
		next, unheld := r.begin(s, time.Now())
		for _, f := range unheld {
			s.running.Go(func() { r.drop(f) }) // which calls handlers
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

// begin begins what is due now, and returns when to look again and what to drop.
func (r *References[T]) begin(s *referenceSession[T], now time.Time) (next time.Time, unheld []*reference[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ready []*reference[T]
	for f := range r.watched() {
		at := r.nextOf(f)
		if at.IsZero() || now.Before(at) {
			next = earlier(next, at)
			continue
		}
		switch unneeded := f.holds == 0 && !now.Before(f.unheld.Add(keepUnheld)); {
		case unneeded && f.isShared():
			r.dropShared(f.through)
			next = now // for those that it has watched
		case unneeded:
			f.dropping = true
			unheld = append(unheld, f)
		case r.isWatched(f):
			r.in.counted.stalls.Add(1)
			r.end(f, f.watch, errNoAnswer)
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
func compareReferences[T Object](a, b *reference[T]) int {
	return tree.CompareKeys(a.key, b.key)
}

// nextOf returns when something is to be done about a reference: zero for
// never. mu is held.
func (r *References[T]) nextOf(f *reference[T]) (at time.Time) {
	if f.dropping || f.dropped {
		return time.Time{}
	}
	if f.holds == 0 {
		at = f.unheld.Add(keepUnheld)
	}
	switch {
	case f.busy || f.wrong != nil:
	case r.isWatched(f):
		if f.watch != nil {
			at = earlier(at, f.watch.stalls())
		}
	case f.isShared() || !f.through.shared.isAwaited():
		at = earlier(at, later(f.again, time.Unix(0, 1)))
	}
	return at
}

// isWatched reports whether nothing is missing of a reference. mu is held.
func (r *References[T]) isWatched(f *reference[T]) bool {
	if f.isShared() {
		return f.watch != nil
	}
	return (f.watch != nil || f.shares) && f.epoch == r.epoch && !f.gap
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// open lists and watches what is ready, until nothing is. If a handler ends the
// goroutine, another one goes on.
func (r *References[T]) open(s *referenceSession[T]) {
	var f *reference[T]
	err := errGoexit
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
		var at time.Time
		if f, at = r.take(s); f == nil {
			finished = true
			return
		}
		if err = sleepUntil(s.ctx, at); err == nil {
			err = errGoexit
			err = r.bring(s, f)
		}
		r.opened(s, f, err)
		f = nil
	}
}

// sleepUntil returns at a time, or the error of ctx.
func sleepUntil(ctx context.Context, at time.Time) error {
	if d := time.Until(at); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// take returns the next reference, and when to begin; nil if none is ready.
func (r *References[T]) take(s *referenceSession[T]) (*reference[T], time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(s.ready) == 0 || s.ctx.Err() != nil {
		s.openers--
		return nil, time.Time{}
	}
	f := s.ready[0]
	s.ready[0] = nil
	s.ready = s.ready[1:]
	at := later(time.Now(), s.next)
	s.next = at.Add(openingPause)
	return f, at
}

// opened notes how an attempt to list and watch a reference has ended.
func (r *References[T]) opened(s *referenceSession[T], f *reference[T], err error) {
	r.mu.Lock()
	f.busy = false
	switch {
	case s.ctx.Err() != nil || f.dropped || errors.Is(err, errNotHeld):
		r.mu.Unlock()
		return
	case err == nil:
		f.err, f.refused = nil, false
	default:
		r.lose(f)
		r.failed(f, err)
	}
	if f.isShared() {
		r.openedShared(f)
		r.session.wakeUp()
		r.mu.Unlock()
		return
	}
	before, problem := f.told, f.problem()
	f.told = problem != nil
	r.session.wakeUp()
	r.mu.Unlock()
	if (problem != nil) != before {
		if problem != nil {
			r.in.feed.log().Error(problem, "cannot watch an object that others refer to, retrying",
				"namespace", f.key.Namespace, "name", f.key.Name)
		}
		r.notify(f.key)
	}
}

// failed notes a failure, and when to try again. mu is held.
func (r *References[T]) failed(f *reference[T], err error) {
	if f.err == nil {
		f.failing = time.Now()
	}
	r.in.counted.failures.Add(1)
	f.err, f.refused = watchingError{r.Kind(), f.key, err}, isRefusal(err)
	pause := r.in.options.BackoffBase << min(f.failures, 20)
	if limit := r.in.options.BackoffCap; pause <= 0 || pause > limit {
		pause = limit
	}
	f.failures++
	f.again = time.Now().Add(wait.Jitter(pause/2, 1))
}

// bring lists a reference, unless its watch can be resumed, and opens its
// watch, unless one is open.
func (r *References[T]) bring(s *referenceSession[T], f *reference[T]) error {
	if f.isShared() {
		return r.bringShared(s, f)
	}
	r.mu.Lock()
	open := f.watch != nil || f.shares || r.join(f)
	resumes, from := f.resumes && f.epoch == r.epoch, f.received
	r.mu.Unlock()
	fake := f.through.source.fake
	if !open && resumes && !fake {
		switch err := r.watch(s, f, from); {
		case err == nil:
			return nil
		case !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			return err
		}
	}
	if !open && fake { // its watches begin where they are opened
		if err := r.watch(s, f, ""); err != nil {
			return err
		}
		open = true
	}
	rv, _, err := r.list(s.ctx, f)
	if err != nil {
		return err
	}
	if !open {
		return r.watch(s, f, rv)
	}
	r.mu.Lock()
	f.gap = false
	r.mu.Unlock()
	return nil
}

// confirm stores the state of the object of key as the server has it now, and
// returns when handlers have been called. comparable is false for fakes, which
// prove nothing.
func (r *References[T]) confirm(ctx context.Context, key types.NamespacedName) (comparable bool, err error) {
	r.mu.Lock()
	f, s := r.refs[key], r.session
	r.mu.Unlock()
	switch {
	case f == nil:
		return false, errNotHeld
	case s == nil:
		return false, errNotRunning
	case f.wrong != nil:
		return false, f.wrong
	}
	_, delivered, err := r.list(ctx, f)
	if err != nil {
		return false, err
	}
	select {
	case <-delivered:
		return !f.through.source.fake, nil
	case <-s.ended:
		return false, errNotRunning
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// list asks the server for the newest state of a reference and stores it,
// unless a watch has brought a newer one. delivered is closed when the handlers
// have been called.
func (r *References[T]) list(ctx context.Context, f *reference[T]) (rv string, delivered chan struct{}, err error) {
	r.mu.Lock()
	asked := listing{epoch: r.epoch, breaks: f.breaks, received: f.received}
	if f.shares {
		asked.shared = f.through.shared.received
	}
	r.mu.Unlock()
	all, err := r.request(ctx, f, f.selecting(metav1.ListOptions{}))
	if err != nil {
		return "", nil, err
	}
	list, err := meta.ListAccessor(all)
	if err != nil {
		return "", nil, err
	}
	var found runtime.Object
	err = meta.EachListItem(all, func(obj runtime.Object) error {
		if object, ok := obj.(T); !ok {
			return wrongType[T](obj)
		} else if bound.KeyOf(object) == f.key { // fakes do not know field selectors
			found = obj
		}
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	r.in.counted.lists.Add(1)
	rv, delivered = list.GetResourceVersion(), make(chan struct{})
	return rv, delivered, r.storeList(f, found, rv, asked, delivered)
}

// listing is what was known when a list was asked for.
type listing struct {
	epoch, breaks    int
	received, shared string // resourceVersions of the reference and of the watch that it shares
}

// selecting adds the name of the object to opts.
func (f *reference[T]) selecting(opts metav1.ListOptions) metav1.ListOptions {
	if f.isShared() {
		return opts
	}
	opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, f.key.Name).String()
	return opts
}

// storeList stores what a list at rv has found of a reference, nil if there is
// no such object.
func (r *References[T]) storeList(
	f *reference[T], found runtime.Object, rv string, asked listing, delivered chan struct{},
) error {
	f.storing.Lock()
	defer f.storing.Unlock()
	comparable := !f.through.source.fake
	r.mu.Lock()
	if f.dropped {
		r.mu.Unlock()
		return errNotHeld
	}
	isBefore := func(received string) bool { return comparable && rv != "" && versions.Older(rv, received) }
	restored := isBefore(asked.received)
	current := restored || !comparable || !versions.Older(rv, f.received)
	if current {
		f.received = rv
	}
	w := f.watch
	if f.shares && isBefore(asked.shared) {
		r.lose(f.through.shared)
		if w := f.through.shared.watch; w != nil {
			r.end(f.through.shared, w, errRestored)
		}
		r.session.wakeUp()
	}
	r.mu.Unlock()
	if restored { // what the cache has may have been lost, and so may what a watch has promised
		r.in.counted.restores.Add(1)
		r.in.feed.log().Info("the server's storage was restored to an earlier state, listing again",
			"seen", asked.received, "resourceVersion", rv, "namespace", f.key.Namespace, "name", f.key.Name)
		r.in.store.forget(f.key)
		if w != nil {
			r.ended(f, w, errRestored)
		}
	}
	switch {
	case !current:
	case found == nil:
		r.in.store.forget(f.key)
	default:
		it, err := f.through.prepare(found)
		if err != nil {
			return err
		}
		r.in.store.put(it)
	}
	r.in.store.delivery.after(func() {
		r.listed(f, rv, asked, restored)
		close(delivered)
	})
	return nil
}

// listed notes that a list at rv has been delivered.
func (r *References[T]) listed(f *reference[T], rv string, asked listing, restored bool) {
	r.mu.Lock()
	known := f.listed && f.epoch == r.epoch
	f.listed, f.epoch, f.sure = true, max(f.epoch, asked.epoch), max(f.sure, asked.breaks)
	now := f.listed && f.epoch == r.epoch
	r.mu.Unlock()
	r.delivered(f, rv, restored)
	if !known && now {
		r.notify(f.key)
	}
}

// delivered notes that everything up to rv has been delivered.
func (r *References[T]) delivered(f *reference[T], rv string, restored bool) {
	r.mu.Lock()
	if restored || !versions.Older(rv, f.delivered) {
		f.delivered = rv
	}
	if restored || !versions.Older(rv, r.newest) {
		r.newest = rv
	}
	due := f.due(false)
	r.mu.Unlock()
	for _, w := range due {
		w.call()
	}
}
