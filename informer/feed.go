package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer/internal/partial"
	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/informer/internal/versions"
	"github.com/homeostat/homeostat/internal/clients"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// errFixedScope is the error of SetNamespaces for informers made with For.
var errFixedScope = errors.New("the client is bound to its namespace: make the informer with ForNamespaces")

// feed keeps a store up to date while a caller of Run needs it. It lists and
// watches each source, and records how far the watches have come.
type feed[T Object] struct {
	sink[T]
	// connect makes the source of a namespace; nil if the namespaces are fixed.
	connect func(namespace string) source

	// partial is set while the session keeps only the objects of some shards.
	partial atomic.Pointer[partial.Cache[T]]
	adding  chan struct{} // holds one element while shards are added

	changing sync.Mutex // held while the namespaces change; locked before mu

	mu      sync.Mutex // guards the fields below
	sources []source
	// session is nil if the feed is not running.
	session *session[T]
	logger  *logr.Logger // for messages without a session; nil means klog's
}

// session is the state of a feed from the first call of Run until the last call
// has ended.
type session[T Object] struct {
	ctx     context.Context //nolint:containedctx // it outlives the call of Run that began it
	cancel  context.CancelFunc
	running sync.WaitGroup
	// ended is closed when all goroutines have ended.
	ended chan struct{}

	// feed.mu guards the fields below.

	users    int // number of active calls of Run
	stopping bool
	// whole is the number of users that want all objects.
	whole   int
	watches []*reflectorStore[T]
}

// run joins the running session, or starts one, and leaves it when ctx ends. If
// cached objects were modified, the last user of a session gets an error that
// names them.
//
// A user of shards passes the cache for a new session as shards. A user of all
// objects passes nil. joined may be nil. It is called when the session takes
// this user into account: from then on the session is synced only if it is
// synced for this user.
func (f *feed[T]) run(ctx context.Context, shards partial.Cache[T], joined func()) error {
	if joined == nil {
		joined = func() {}
	}
	for {
		f.mu.Lock()
		s := f.session
		if s == nil {
			s = f.start(ctx, shards)
		}
		if !s.stopping {
			s.users++
			if shards == nil {
				s.whole++
			}
			f.mu.Unlock()
			if part := f.part(); part != nil {
				defer part.Join(ctx, shards == nil, joined)()
			} else {
				joined()
			}
			<-ctx.Done()
			return f.leave(ctx, s, shards == nil)
		}
		f.mu.Unlock()
		select {
		case <-s.ended:
		case <-ctx.Done():
			return nil
		}
	}
}

// start starts a session. mu must be held.
func (f *feed[T]) start(ctx context.Context, shards partial.Cache[T]) *session[T] {
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(ctx), f.logIn(ctx)))
	s := &session[T]{ctx: ctx, cancel: cancel, ended: make(chan struct{})}
	f.session = s
	if shards != nil {
		f.partial.Store(&shards)
		return s
	}
	for _, source := range f.sources {
		f.watch(s, source)
	}
	return s
}

// watch adds a watch to s. mu must be held.
func (f *feed[T]) watch(s *session[T], src source) {
	ctx, cancel := context.WithCancel(s.ctx)
	r := newReflectorStore(&f.sink, src, klog.FromContext(ctx))
	r.ctx, r.cancel = ctx, cancel
	if part := f.part(); part != nil {
		r.part, r.target, r.specs.part = part, part, part
	}
	s.watches = append(slices.Clip(s.watches), r)
	s.running.Go(func() {
		defer close(r.ended)
		var watchdog sync.WaitGroup
		watchdog.Go(func() { r.progress.guard(ctx) })
		r.run(ctx)
		r.watched.end()
		watchdog.Wait()
	})
}

// leave removes a user from the session. The last user ends the session, and
// gets an error if cached objects were modified in it.
func (f *feed[T]) leave(ctx context.Context, s *session[T], whole bool) error {
	f.mu.Lock()
	s.users--
	if whole {
		s.whole--
	}
	if s.users > 0 {
		f.mu.Unlock()
		f.updateSynced() // this user may have been the only one for whom objects were missing
		return nil
	}
	s.stopping = true
	f.mu.Unlock()

	f.updateSynced()
	s.cancel()
	s.running.Wait()
	f.marks.Reset()
	if part := f.part(); part != nil {
		part.End()
	}
	err := f.store.finishMutations(ctx)

	f.mu.Lock()
	f.session = nil
	f.mu.Unlock()
	f.clearIfUnused()
	close(s.ended)
	return err
}

// clearIfUnused clears the cache if no Run is active and no handler is left.
func (f *feed[T]) clearIfUnused() {
	f.store.writing.Lock()
	defer f.store.writing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == nil {
		f.store.clearIfUnused()
	}
}

// current returns the watches of the session, and whether there is a session.
func (f *feed[T]) current() (watches []*reflectorStore[T], running bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == nil {
		return nil, false
	}
	return f.session.watches, true
}

func (f *feed[T]) currentSources() []source {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sources
}

// watchesNamespace reports whether the objects of namespace are or will be
// cached. A source must be known to list the namespace, and the shard of the
// namespace must have been added.
func (f *feed[T]) watchesNamespace(namespace string) bool {
	reads, _ := f.reads(namespace)
	return reads && f.keeps(namespace)
}

// part returns the cache of a session that keeps only the objects of some
// shards, or nil if the session keeps all objects.
func (f *feed[T]) part() partial.Cache[T] {
	if part := f.partial.Load(); part != nil {
		return *part
	}
	return nil
}

// keeps reports whether namespace is in a shard that is kept.
func (f *feed[T]) keeps(namespace string) bool {
	part := f.part()
	return part == nil || keyspace.Has(part.Wanted(), namespace)
}

// lacks reports whether a user needs all objects while some shards are not
// complete yet. mu must be held.
func (f *feed[T]) lacks() bool {
	part := f.part()
	return part != nil && f.session.whole > 0 && !part.Complete().Includes(keyspace.Whole())
}

// reads reports whether a source lists the objects of namespace, and whether
// this is known. For a source that does not show its namespaces, this is known
// only for namespaces from which the source has delivered an object.
func (f *feed[T]) reads(namespace string) (reads, known bool) {
	known = true
	for _, s := range f.currentSources() {
		if s.reach.Includes(namespace) {
			return true, true
		}
		known = known && s.reach.Certainty == clients.Certain
	}
	if !known {
		_, reads = f.seenNamespaces.Load(namespace)
	}
	return reads, reads || known
}

// hasSynced reports whether all watches have stored and delivered their first
// list. If a user needs all objects, all shards must be complete, too. It
// returns false if the feed is not running.
func (f *feed[T]) hasSynced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session != nil && !f.session.stopping && !f.lacks() &&
		!slices.ContainsFunc(f.session.watches, func(r *reflectorStore[T]) bool { return !r.progress.synced.Load() })
}

// isLacking is lacks for callers that do not hold mu.
func (f *feed[T]) isLacking() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session != nil && f.lacks()
}

// whyNotSynced explains why hasSynced returns false.
func (f *feed[T]) whyNotSynced() string {
	watches, running := f.current()
	if !running {
		return requests.ErrNotRunning.Error()
	}
	var reasons []string
	for _, r := range watches {
		if reason := r.progress.whyNotSynced(); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) == 0 && f.isLacking() {
		reasons = append(reasons, "the objects of the other shards are being listed, because a user of the informer "+
			"needs all objects")
	}
	return strings.Join(reasons, "; ")
}

// log returns the logger of the session. Without a session, it returns the last
// logger of useLog or, before the first call of useLog, klog's.
func (f *feed[T]) log() logr.Logger {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != nil {
		return klog.FromContext(f.session.ctx)
	}
	if f.logger != nil {
		return *f.logger
	}
	return f.logIn(context.Background())
}

// logIn returns the logger of ctx, with the informer's name.
func (f *feed[T]) logIn(ctx context.Context) logr.Logger {
	return klog.FromContext(ctx).WithName("informer").WithValues("informer", f.identity.Name())
}

// useLog makes the feed log as ctx specifies while there is no session, and
// returns that logger.
func (f *feed[T]) useLog(ctx context.Context) logr.Logger {
	log := f.logIn(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logger = &log
	return log
}

// connected makes and returns a source for each of the namespaces in wanted
// that have no source in sources. mu must not be held, because connected calls
// connect, a function of the program, which may panic.
func (f *feed[T]) connected(wanted []string, sources []source) (added []source, err error) {
	for _, namespace := range wanted {
		if !slices.ContainsFunc(sources, func(s source) bool { return s.namespace == namespace }) {
			s := f.connect(namespace)
			added, err = append(added, s), errors.Join(err, s.err)
		}
	}
	return added, err
}

// setNamespaces replaces the namespaces of the feed with the namespaces in
// wanted. It ends the watches of other namespaces, removes their objects, and
// starts watches of new namespaces.
func (f *feed[T]) setNamespaces(wanted []string) error {
	if f.connect == nil {
		return errFixedScope
	}
	f.changing.Lock()
	defer f.changing.Unlock()
	stays := func(namespace string) bool { return slices.Contains(wanted, namespace) }

	f.mu.Lock()
	sources := slices.DeleteFunc(slices.Clone(f.sources), func(s source) bool { return !stays(s.namespace) })
	f.mu.Unlock()
	added, err := f.connected(wanted, sources)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.sources = slices.Concat(sources, added)
	var ending []*reflectorStore[T]
	session := f.session
	if session != nil {
		var staying []*reflectorStore[T]
		for _, r := range session.watches {
			if stays(r.source.namespace) {
				staying = append(staying, r)
			} else {
				ending = append(ending, r)
			}
		}
		session.watches = staying
	}
	f.mu.Unlock()

	for _, r := range ending {
		r.cancel()
		<-r.ended
		f.marks.Forget(r.source.namespace)
	}
	if !stays("") {
		f.store.retain(stays)
	}
	f.mu.Lock()
	if session != nil && f.session == session && !session.stopping {
		for _, s := range added {
			f.watch(session, s)
		}
	}
	f.mu.Unlock()
	f.updateSynced()
	return nil
}

// namespacesOf returns namespaces in sorted order and without duplicates. An
// empty list becomes "" (all namespaces).
func namespacesOf(namespaces []string) []string {
	if len(namespaces) == 0 {
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(namespaces)))
}

// waitForSync returns when hasSynced is true. Its error explains what is
// missing, without the informer's name.
func (f *feed[T]) waitForSync(ctx context.Context) error {
	if versions.WaitFor(ctx, func(done func()) func() { return f.marks.On(&versions.Waiter{Call: done, AnyRV: true}) }) {
		return nil
	}
	return fmt.Errorf("%s: %w", f.whyNotSynced(), context.Cause(ctx))
}

// watchOf returns the watch that delivers the objects of namespace, or nil.
func (f *feed[T]) watchOf(namespace string) *reflectorStore[T] {
	watches, _ := f.current()
	for _, r := range watches {
		if watched := r.source.namespace; watched == "" || watched == namespace {
			return r
		}
	}
	return nil
}

// syncedIn reports whether the watch that delivers the objects of namespace has
// stored and delivered its first list. It also reports true if the informer
// runs and does not read that namespace.
func (f *feed[T]) syncedIn(namespace string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.session
	if s == nil || s.stopping {
		return false
	}
	for _, r := range s.watches {
		if watched := r.source.namespace; watched == "" || watched == namespace {
			return r.progress.synced.Load()
		}
	}
	// If the namespace has a source, SetNamespaces is about to start its watch.
	return f.part() != nil || !slices.ContainsFunc(f.sources, func(s source) bool { return s.namespace == namespace })
}

// waitForSyncIn returns when syncedIn is true.
func (f *feed[T]) waitForSyncIn(ctx context.Context, namespace string) error {
	return f.waitUntil(ctx, func() bool { return f.syncedIn(namespace) })
}

// waitUntil returns when ready returns true. ready must depend only on the
// first lists.
func (f *feed[T]) waitUntil(ctx context.Context, ready func() bool) error {
	if versions.WaitFor(ctx, func(done func()) func() { return f.marks.On(&versions.Waiter{Call: done, Ready: ready}) }) {
		return nil
	}
	return fmt.Errorf("%s: %w", f.whyNotSynced(), context.Cause(ctx))
}

// hasStarted reports whether at least one watch has synced. The others do not
// count, because one of them may never get an answer.
func (f *feed[T]) hasStarted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.session != nil && !f.session.stopping &&
		slices.ContainsFunc(f.session.watches, func(r *reflectorStore[T]) bool { return r.progress.synced.Load() })
}
