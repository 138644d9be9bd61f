package informer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer/internal/follow"
)

// A session is the time from the first Run to the end of the last one.
type session[T Object] struct {
	ctx     context.Context //nolint:containedctx // it outlives the call of Run that began it
	cancel  context.CancelFunc
	running sync.WaitGroup
	ended   chan struct{} // closed when all goroutines have ended

	// The Informer's mu guards what follows.
	users    int
	stopping bool
	watches  []*reflection[T]
}

// Run lists and watches until ctx ends, then returns nil. It fails at once if
// the options are faulty; all else is retried. If it looks for mutations, it
// returns those that were found ([MutationError]).
//
// Calls may overlap: the first one starts the watch, with its context's values,
// and the last one to end stops it and returns after every goroutine has ended.
// Afterwards the informer can be run again. Once no Run is left and no handler
// either, the cache is emptied.
func (i *Informer[T]) Run(ctx context.Context) error {
	if i.fault != nil {
		return fmt.Errorf("running the informer of %s: %w", i.Name(), i.fault)
	}
	s := i.join(ctx)
	if s == nil {
		return nil
	}
	<-ctx.Done()
	if err := i.leave(ctx, s); err != nil {
		return fmt.Errorf("running the informer of %s: %w", i.Name(), err)
	}
	return nil
}

// join returns the session that is running, or a new one: nil if ctx ends
// before the old one has.
func (i *Informer[T]) join(ctx context.Context) *session[T] {
	for {
		i.mu.Lock()
		s := i.session
		if s == nil {
			s = i.start(ctx)
		}
		if !s.stopping {
			s.users++
			i.mu.Unlock()
			return s
		}
		i.mu.Unlock()
		select {
		case <-s.ended:
		case <-ctx.Done():
			return nil
		}
	}
}

// start begins a session. The caller holds mu.
func (i *Informer[T]) start(ctx context.Context) *session[T] {
	log := klog.FromContext(ctx).WithName("informer").WithValues("informer", i.Name())
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(ctx), log))
	s := &session[T]{ctx: ctx, cancel: cancel, ended: make(chan struct{})}
	i.session = s
	for _, source := range i.sources {
		i.watch(s, source)
	}
	return s
}

// watch adds a watch to s. The caller holds mu.
func (i *Informer[T]) watch(s *session[T], from source) {
	ctx, cancel := context.WithCancel(s.ctx)
	r := &reflection[T]{
		informer: i, source: from, cancel: cancel, log: klog.FromContext(ctx),
		poked: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	s.watches = append(slices.Clip(s.watches), r)
	s.running.Go(func() {
		defer close(r.ended)
		var dog sync.WaitGroup
		dog.Go(func() { r.watchdog(ctx) })
		if client, ok := from.follows.(*follow.Client[T]); ok {
			if err := client.Follow(ctx, follower[T]{r}); err != nil {
				r.failed(ctx, err)
				<-ctx.Done()
			}
		} else {
			r.run(ctx)
		}
		cancel()
		dog.Wait()
	})
}

// leave ends the session if nobody else uses it, and returns the mutations that
// were found in it.
func (i *Informer[T]) leave(ctx context.Context, s *session[T]) error {
	i.mu.Lock()
	s.users--
	if s.users > 0 {
		i.mu.Unlock()
		return nil
	}
	s.stopping = true
	i.mu.Unlock()

	i.seen.setSynced(false)
	s.cancel()
	s.running.Wait()
	i.seen.reset()
	err := i.detector.last(ctx, i)

	i.mu.Lock()
	i.session = nil
	i.mu.Unlock()
	i.forgetIfUnused()
	close(s.ended)
	return err
}

// forgetIfUnused empties the cache when nobody keeps it up to date and nobody
// would have to hear of what is gone.
func (i *Informer[T]) forgetIfUnused() {
	i.writing.Lock()
	defer i.writing.Unlock()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.session == nil && len(i.handlers) == 0 {
		i.latest.Store(versionOf(i.empty()))
		i.newest.clear()
		i.detector.clear()
	}
}

// handedOn notes that a watch has stored its first list and that every handler
// has heard of it, or that the watches are others than before.
func (i *Informer[T]) handedOn() {
	i.mu.Lock()
	synced := i.isSynced()
	i.mu.Unlock()
	i.seen.setSynced(synced)
}
