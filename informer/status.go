package informer

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status describes an informer at one moment, for metrics and debug pages.
type Status struct {
	Name, Kind string
	Running    bool
	Synced     bool
	// Reason says why it has not synced; see WaitForSync. Empty if it has.
	Reason string
	// Partly is true if Options.Independent is set and only some namespaces have synced.
	// Problems has the others.
	Partly bool
	// Objects is how many are cached, and Handlers how many were added and not removed.
	Objects  int
	Handlers int

	// Namespaces that are watched; empty if all are. For a wrapped informer these and the
	// selectors are those of the options.
	Namespaces                   []string
	LabelSelector, FieldSelector string
	MetadataOnly                 bool
	// Divided is true while the cache keeps only the objects of some shards. ShardFilter is
	// then the side that filters out the others, if known: "server" or "client".
	Divided     bool
	ShardFilter string
	// Wrapped is true for an informer that follows a cache of client-go, so that
	// WaitForLatest fails.
	Wrapped bool
	// Server is the URL of the API server; empty if the client does not tell, like fakes
	// and shared informers.
	Server string

	ResourceVersion string // see LastResourceVersion
	// LastActivity is when the least recently active watch last received anything;
	// zero if no watch runs.
	LastActivity time.Time
	// WatchSince is when the oldest open watch was opened; zero if none is open.
	WatchSince time.Time
	// Lag is how long the oldest change that is not yet delivered to all handlers has been
	// waiting; 0 if there is none.
	Lag time.Duration
	// LastError is the error of the last failed request, until one succeeds.
	LastError string
	// Problems are what does not work although the cache serves everything else: objects
	// that are unreadable (see [Informer.Unreadable]), or of which a handler that panicked
	// has missed the last event, and watches that have failed for a minute.
	Problems []Problem
	// UnauthorizedSince is since when the server has answered every request of a watch,
	// which worked before, with 401; zero if it has not. The credentials have ended.
	UnauthorizedSince time.Time
	// FullDecode says why unchanged specs are decoded nevertheless, such as `the server
	// sends "application/json"`; empty while they are not.
	FullDecode string

	// Since the informer was made: Lists counts stored lists; all but the first of each Run
	// are relists.
	Lists   int64
	Watches int64 // opened
	// Stalls counts watches that were closed because they were silent.
	Stalls int64
	// Restores counts how often the server's resourceVersions went back, as after a restore
	// of its storage from a backup: then everything is listed again.
	Restores int64
	Failures int64 // of requests
	Events   int64 // delivered
	Panics   int64 // of handlers

	size func() int64
}

// Size estimates how many bytes of memory the cached objects take, from a sample of a
// few hundred. It takes about two milliseconds, so it is computed only when Size is
// called.
//
// The estimate includes strings, slices and maps of the objects; parts shared by
// neighbours in namespace and name count once. It does not include the store and its
// indexes (about 150 bytes per object), or the allocator's rounding (about 5 %).
func (s Status) Size() int64 {
	if s.size == nil {
		return 0
	}
	return s.size()
}

// Status returns the state of the informer. It never waits for a handler or for the
// server.
func (i *Informer[T]) Status() Status {
	watches, running := i.feed.current()
	handlers, waiting := i.store.delivery.count()
	sources, now := i.feed.currentSources(), i.store.latest.Load()
	s := Status{
		Name: i.Name(), Kind: i.Kind(), Running: running, Synced: i.HasSynced(), Objects: now.count, Handlers: handlers,
		LabelSelector: i.options.LabelSelector, FieldSelector: i.options.FieldSelector,
		MetadataOnly: reflect.TypeFor[T]() == reflect.TypeFor[*metav1.PartialObjectMetadata](),
		Server:       sources[0].server, Wrapped: sources[0].follows != nil,
		ResourceVersion: i.LastResourceVersion(),
		Lists:           i.counted.lists.Load(), Watches: i.counted.watches.Load(), Stalls: i.counted.stalls.Load(),
		Restores: i.counted.restores.Load(),
		Failures: i.counted.failures.Load(), Events: i.counted.events.Load(),
		Panics:  i.counted.panics.Load(),
		Divided: i.store.shards.partial(),
		size:    now.size,
	}
	for _, from := range sources {
		if from.namespace != "" {
			s.Namespaces = append(s.Namespaces, from.namespace)
		}
	}
	slices.Sort(s.Namespaces)
	s.Problems = append(s.Problems, i.feed.missing()...)
	ofObjects := slices.Concat(i.store.unreadable.problems(), i.store.delivery.problems())
	s.Problems = append(s.Problems, firstProblems(ofObjects)...)
	if !waiting.IsZero() {
		s.Lag = max(time.Since(waiting), 1)
	}
	if !s.Synced {
		s.Reason, s.Partly = i.feed.whyNotSynced(), i.options.Independent && i.feed.hasStarted()
	}
	for _, r := range watches {
		opened, err := r.progress.state()
		s.WatchSince = earlier(s.WatchSince, opened)
		s.LastActivity = earlier(s.LastActivity, r.progress.lastActivity())
		if err != nil {
			s.LastError = err.Error()
		}
		problems, unauthorized := r.progress.problem()
		s.Problems = append(s.Problems, problems...)
		s.UnauthorizedSince = earlier(s.UnauthorizedSince, unauthorized)
		s.FullDecode = cmp.Or(s.FullDecode, r.specs.fullDecode())
		if side := r.filter.Load(); side != nil {
			s.ShardFilter = *side
		}
	}
	return s
}
