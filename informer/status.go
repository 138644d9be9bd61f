package informer

import (
	"sync/atomic"
	"time"
)

// A Status is what an informer is doing, for metrics and debug pages.
type Status struct {
	Name, Kind string
	Running    bool
	Synced     bool
	Reason     string // why not, see WaitForSync; empty when synced
	Objects    int
	Handlers   int

	ResourceVersion string    // see LastResourceVersion
	LastSign        time.Time // of life from the server, by the watch that is silent longest; zero if none runs
	LastError       string    // of a request that has failed and not been repeated with success

	// Counted since the informer was made.
	Lists    int64 // stored, so all but the first of each Run were relists
	Watches  int64 // opened
	Stalls   int64 // watches that were ended because nothing came
	Failures int64 // of requests
	Events   int64 // handed on
}

// counters are the counted part of a Status.
type counters struct{ lists, watches, stalls, failures, events atomic.Int64 }

// Status returns what the informer is doing now.
func (i *Informer[T]) Status() Status {
	watches, running := i.watches()
	i.mu.Lock()
	handlers, synced := len(i.handlers), i.isSynced()
	i.mu.Unlock()
	s := Status{
		Name: i.Name(), Kind: i.Kind(), Synced: synced, Objects: i.Snapshot().Len(), Handlers: handlers,
		ResourceVersion: i.LastResourceVersion(),
		Lists:           i.counted.lists.Load(), Watches: i.counted.watches.Load(), Stalls: i.counted.stalls.Load(),
		Failures: i.counted.failures.Load(), Events: i.counted.events.Load(),
	}
	if !synced {
		s.Reason = i.reason()
	}
	s.Running = running
	for _, r := range watches {
		if sign := r.lastSign(); !sign.IsZero() && (s.LastSign.IsZero() || sign.Before(s.LastSign)) {
			s.LastSign = sign
		}
		if err := r.lastError(); err != nil {
			s.LastError = err.Error()
		}
	}
	return s
}
