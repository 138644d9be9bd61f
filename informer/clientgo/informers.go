package clientgo

import (
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
	mu  sync.Mutex // guards all
	all []*shared
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
	i.all = append(i.running(), s)
	return s
}

// Status returns the state of each informer that has not stopped, in the order
// in which they were made. It never waits for a handler or for the server.
func (i *Informers) Status() []informer.Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = i.running()
	statuses := make([]informer.Status, len(i.all))
	for n, s := range i.all {
		statuses[n] = s.status()
	}
	return statuses
}

// running returns the informers that have not stopped. The caller holds mu.
func (i *Informers) running() []*shared { return slices.DeleteFunc(i.all, (*shared).IsStopped) }

// status returns the state of the engine and the counters of the listeners.
func (s *shared) status() informer.Status {
	status := s.engine.Status()
	status.ResourceVersion, status.Events = s.LastSyncResourceVersion(), s.events.Load()
	s.distributing.Lock()
	all := make([]*listener, 0, len(s.listeners))
	for l := range s.listeners {
		all = append(all, l)
	}
	s.distributing.Unlock()
	status.Handlers = len(all)
	for _, l := range all {
		status.Lag = max(status.Lag, l.lag())
	}
	return status
}
