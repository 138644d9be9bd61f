package informer

import (
	"cmp"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/intern"
)

// A Status is what an informer is doing, for metrics and debug pages.
type Status struct {
	Name, Kind string
	Running    bool
	Synced     bool
	Reason     string // why not, see WaitForSync; empty when synced
	Objects    int
	Handlers   int

	// What is watched, no namespaces meaning all. Of a wrapped informer it is what
	// the options say.
	Namespaces                   []string
	LabelSelector, FieldSelector string
	MetadataOnly                 bool
	Wrapped                      bool   // made by Wrap, so that WaitForLatest is an error
	Server                       string // its URL; empty if the client does not tell, as fakes and shared informers

	ResourceVersion string        // see LastResourceVersion
	LastActivity    time.Time     // of life from the server, by the watch that is silent longest; zero if none runs
	WatchSince      time.Time     // when the watch was opened that is open longest; zero if none is
	Lag             time.Duration // how long the oldest change has been waiting to be handed on; 0 if none waits
	LastError       string        // of a request that has failed and not been repeated with success

	// FullDecode says why specs that have not changed are decoded, too, such as
	// `the server sends "application/json"`. It is empty while they are left out.
	FullDecode string

	// Counted since the informer was made.
	Lists    int64 // stored, so all but the first of each Run were relists
	Watches  int64 // opened
	Stalls   int64 // watches that were ended because nothing came
	Failures int64 // of requests
	Events   int64 // handed on
	Panics   int64 // of handlers

	size func() int64
}

// Size estimates how many bytes of memory the cached objects take, from a few
// hundred of them. It takes about two milliseconds; a Status whose Size nobody
// asks for costs nothing.
//
// It counts the objects with their strings, slices and maps; what objects that
// are neighbours by namespace and name share counts once. It does not count the
// store and its indexes (some 150 bytes for each object), nor what the allocator
// rounds up to (about a twentieth).
func (s Status) Size() int64 {
	if s.size == nil {
		return 0
	}
	return s.size()
}

// counters are the counted part of a Status.
type counters struct{ lists, watches, stalls, failures, events, panics atomic.Int64 }

// Status returns what the informer is doing now.
func (i *Informer[T]) Status() Status {
	watches, running := i.watches()
	i.mu.Lock()
	handlers, synced, namespaces, waiting := len(i.handlers), i.isSynced(), i.namespaces(), i.waitingSince()
	server, wrapped := i.sources[0].server, i.sources[0].follows != nil
	i.mu.Unlock()
	now := i.state()
	s := Status{
		Name: i.Name(), Kind: i.Kind(), Synced: synced, Objects: now.count, Handlers: handlers,
		Namespaces: namespaces, LabelSelector: i.options.LabelSelector, FieldSelector: i.options.FieldSelector,
		MetadataOnly: reflect.TypeFor[T]() == reflect.TypeFor[*metav1.PartialObjectMetadata](),
		Server:       server, Wrapped: wrapped,
		ResourceVersion: i.LastResourceVersion(),
		Lists:           i.counted.lists.Load(), Watches: i.counted.watches.Load(), Stalls: i.counted.stalls.Load(),
		Failures: i.counted.failures.Load(), Events: i.counted.events.Load(),
		Panics: i.counted.panics.Load(),
		size:   now.size,
	}
	if !waiting.IsZero() {
		s.Lag = max(time.Since(waiting), 1)
	}
	if !synced {
		s.Reason = i.reason()
	}
	s.Running = running
	for _, r := range watches {
		if sign := r.lastSign(); !sign.IsZero() && (s.LastActivity.IsZero() || sign.Before(s.LastActivity)) {
			s.LastActivity = sign
		}
		if since := r.openSince(); !since.IsZero() && (s.WatchSince.IsZero() || since.Before(s.WatchSince)) {
			s.WatchSince = since
		}
		if err := r.lastError(); err != nil {
			s.LastError = err.Error()
		}
		s.FullDecode = cmp.Or(s.FullDecode, r.fullDecode())
	}
	return s
}

// namespaces returns those that are watched: none if all are. The caller holds
// mu.
func (i *Informer[T]) namespaces() (names []string) {
	for _, s := range i.sources {
		if s.namespace != "" {
			names = append(names, s.namespace)
		}
	}
	slices.Sort(names)
	return names
}

// sampled is how many leaves of the tree are measured: neighbours are what
// shares most.
const sampled = 5

// size estimates what the objects of s take.
func (s *state[T]) size() int64 {
	leaves := s.root.appendLeaves(nil)
	step, objects := max(1, len(leaves)/sampled), 0
	size := intern.Size(func(yield func(T) bool) {
		for at := step / 2; at < len(leaves); at += step {
			for _, it := range leaves[at].items {
				objects++
				if !yield(it.object) {
					return
				}
			}
		}
	})
	return size * int64(s.count) / int64(max(1, objects))
}
