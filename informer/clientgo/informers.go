package clientgo

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer"
)

// Informers makes shared informers, and returns the state of the ones that have
// not stopped. The zero value is ready to use. For example, with
// controller-runtime, and with the metrics of package metrics in its registry:
//
//	var informers clientgo.Informers
//	ctrl.Options{Cache: cache.Options{NewInformer: informers.New}}
//	ctrlmetrics.Registry.MustRegister(metrics.Informers(informers.Status))
//
// It is safe for concurrent use.
type Informers struct {
	mu   sync.Mutex // guards the fields below
	made []*shared
}

// New returns a shared informer as [NewSharedIndexInformer] does. Status
// includes its state.
func (i *Informers) New(
	lw cache.ListerWatcher, exampleObject runtime.Object, defaultEventHandlerResyncPeriod time.Duration,
	indexers cache.Indexers,
) cache.SharedIndexInformer {
	s := newShared(lw, exampleObject, cache.SharedIndexInformerOptions{
		ResyncPeriod: defaultEventHandlerResyncPeriod, Indexers: indexers,
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made = append(i.running(), s)
	return s
}

// Status returns the state of each informer that has not stopped, in the order
// in which they were made. It never waits for a handler or for the server.
func (i *Informers) Status() []informer.Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made = i.running()
	statuses := make([]informer.Status, len(i.made))
	for n, s := range i.made {
		statuses[n] = s.status()
	}
	return statuses
}

// WaitForLatest returns when the caches are at least as new as the server was
// at the time of the call. For example, a replica that has just become the
// leader calls it. Its reconcilers then see what the previous leader wrote. It
// does not wait for an informer whose first list fails, because that informer
// will be listed after the call. Nor does it wait for an informer that stops in
// the meantime.
//
// It lists the objects of each informer page by page. It lists only the first
// page if the watch catches up within a second after that.
//
// If ctx ends first, WaitForLatest returns an error for each informer that is
// not as new yet. The error contains the informer's name and the cause of ctx.
func (i *Informers) WaitForLatest(ctx context.Context) error {
	i.mu.Lock()
	made := slices.Clone(i.running())
	i.mu.Unlock()
	errs := make([]error, len(made))
	var waiting sync.WaitGroup
	for n, s := range made {
		waiting.Go(func() { errs[n] = s.waitForLatest(ctx) })
	}
	waiting.Wait()
	return errors.Join(errs...)
}

// statePoll is how often waitForLatest checks whether the informer can still
// become as new as the server.
const statePoll = 100 * time.Millisecond

// waitForLatest waits until the cache is as new as the server, the informer
// stops, or its first list fails.
func (s *shared) waitForLatest(ctx context.Context) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.engine.WaitForLatest(waiting) }()
	for {
		status := s.engine.Status()
		if s.IsStopped() || !status.Synced && status.LastError != "" {
			cancel()
			<-done //nolint:errcheck // the error only says that the wait was cancelled
			return nil
		}
		select {
		case err := <-done:
			if s.IsStopped() {
				return nil
			}
			return err
		case <-time.After(statePoll):
		}
	}
}

// running returns the informers that have not stopped. The caller holds mu.
func (i *Informers) running() []*shared { return slices.DeleteFunc(i.made, (*shared).IsStopped) }

// status returns the state of the informer: the status of its engine, with the
// counters of the listeners.
func (s *shared) status() informer.Status {
	status := s.engine.Status()
	status.ResourceVersion, status.Events = s.LastSyncResourceVersion(), s.events.Load()
	s.distributing.Lock()
	listeners := make([]*listener, 0, len(s.listeners))
	for l := range s.listeners {
		listeners = append(listeners, l)
	}
	s.distributing.Unlock()
	status.Handlers = len(listeners)
	for _, l := range listeners {
		status.Lag = max(status.Lag, l.lag())
	}
	return status
}
