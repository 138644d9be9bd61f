package informer

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer/internal/requests"
	"github.com/homeostat/homeostat/internal/redact"
)

// Status describes an informer at one moment, for metrics and debug pages.
type Status struct {
	Name, Kind string
	Running    bool
	Synced     bool
	// Reason explains why the informer has not synced; see WaitForSync. It is
	// empty once the informer has synced.
	Reason string
	// Partly is true if Options.Independent is set and only some namespaces
	// have synced. Problems contains each other namespace once its first list
	// has failed, or has taken a minute.
	Partly bool
	// Objects is the number of cached objects, and Handlers the number of
	// handlers that were added and not removed.
	Objects  int
	Handlers int

	// Namespaces are the namespaces that are watched. It is empty if all
	// namespaces are watched. For a wrapped informer, the namespaces and the
	// selectors are copied from the options.
	Namespaces                   []string
	LabelSelector, FieldSelector string
	MetadataOnly                 bool
	// Divided is true while the cache keeps only the objects of some shards.
	// ShardFilter then says which side leaves out the objects of other shards:
	// "server", "client", or empty if that is not known yet.
	Divided     bool
	ShardFilter string
	// Wrapped is true for an informer that follows a cache of client-go.
	// WaitForLatest returns an error for such an informer.
	Wrapped bool
	// Referenced is true for a cache made by Referenced. It holds only objects
	// that others refer to. References is the number of objects that it holds or
	// waits for, and OpenWatches the number of open watches. Such a cache counts
	// as synced while it runs.
	Referenced              bool
	References, OpenWatches int
	// Server is the URL of the API server. It is empty if the client does not
	// show it, as with fakes and shared informers.
	Server string

	ResourceVersion string // what [Informer.LastResourceVersion] returns
	// LastActivity is when the least recently active watch last received data.
	// Watches that have not received data yet do not count. It is zero if no
	// watch has received data.
	LastActivity time.Time
	// WatchSince is when the oldest open watch was opened. It is zero if no
	// watch is open.
	WatchSince time.Time
	// Lag is how long the oldest change that has not been delivered to all
	// handlers has been waiting. It is zero if all changes have been delivered.
	Lag time.Duration
	// LastError is the error of the last request of a watch, if that request
	// failed. It is empty if the last request of every watch has succeeded. If
	// several watches fail, it is the error of one of them.
	LastError string
	// Problems lists the parts that do not work while the cache serves the
	// rest. Such a part is an unreadable object (see [Informer.Unreadable]), an
	// object whose last event a handler has missed because the handler
	// panicked, a function of the program that has not returned for a minute,
	// or a watch that has failed, or has had no answer, for a minute. With
	// Options.Independent it may also be a namespace that has not been listed,
	// and in a cache made by Referenced an object that cannot be watched. A
	// watch that delivers bookmarks counts as working, even if the API server's
	// own cache has stopped and delivers no events. A wrapped informer does not
	// know whether its watch has failed.
	Problems []Problem
	// UnauthorizedSince is when the server began to answer every request of a
	// watch with 401, after the watch had worked. This means that the
	// credentials are no longer valid. It is zero if the server does not answer
	// in this way. A 401 in a form that is not the API server's, such as the
	// page of a proxy, does not count. In a cache made by Referenced, the watch
	// of one object is enough.
	UnauthorizedSince time.Time
	// FullDecode explains why unchanged specs are decoded again, such as `the
	// server sends "application/json"`. It is empty if they are not decoded
	// again, or if no reason is known yet.
	FullDecode string

	// Lists counts the lists that were stored since the informer was made; the
	// counts below begin at that time, too. Whenever the informer starts, the
	// first list of each watched namespace is an initial list. All other lists
	// are relists. A cache made by Referenced lists each object by itself.
	Lists   int64
	Watches int64 // Watches counts opened watches.
	// Stalls counts watches that the informer closed because they were silent,
	// were still open long after their timeout, or did not complete a streamed
	// list.
	Stalls int64
	// Restores counts how often a watch noticed that the server's
	// resourceVersions went back, as after a restore of its storage from a
	// backup. Everything is then listed again. With several namespaces, each
	// watch counts the same restore. Some aggregated API servers send lists
	// with an older resourceVersion than an object in them. After such a list,
	// its watch notices no restore, and [Informer.IsDeleted] returns false for
	// the objects of that watch, until the informer is started again.
	Restores int64
	Failures int64 // Failures counts failed requests.
	// Events counts the events of changes. An event counts once, regardless of
	// how many handlers receive it. The replay to a new handler does not count.
	Events int64
	// Panics counts calls of handlers that panicked or ended their goroutine.
	Panics int64

	size func() int64
}

// Size estimates how many bytes of memory the cached objects use, from a sample
// of a few hundred. It takes about two milliseconds, so it is computed only
// when Size is called.
//
// The estimate includes strings, slices and maps of the objects. If objects
// whose namespaces and names are next to each other share parts in memory, such
// as equal labels, each part is counted once. The estimate does not include the
// store and its indexes (about 150 bytes per object), or the allocator's
// rounding (about 5 %).
func (s Status) Size() int64 {
	if s.size == nil {
		return 0
	}
	return s.size()
}

// Status returns the state of the informer. It never waits for a handler or for
// the server.
func (i *Informer[T]) Status() Status {
	watches, running := i.feed.current()
	handlers, waiting := i.store.delivery.count()
	sources, content := i.feed.currentSources(), i.store.latest.Load()
	s := Status{
		Name: i.Name(), Kind: i.Kind(), Running: running, Synced: i.HasSynced(), Objects: content.count, Handlers: handlers,
		LabelSelector: i.options.LabelSelector, FieldSelector: i.options.FieldSelector,
		MetadataOnly: reflect.TypeFor[T]() == reflect.TypeFor[*metav1.PartialObjectMetadata](),
		Server:       sources[0].server, Wrapped: sources[0].follows != nil,
		ResourceVersion: i.LastResourceVersion(),
		Lists:           i.counted.Lists.Load(), Watches: i.counted.Watches.Load(), Stalls: i.counted.Stalls.Load(),
		Restores: i.counted.Restores.Load(),
		Failures: i.counted.Failures.Load(), Events: i.counted.events.Load(),
		Panics: i.counted.panics.Load(),
		size:   content.size,
	}
	for _, source := range sources {
		if source.namespace != "" {
			s.Namespaces = append(s.Namespaces, source.namespace)
		}
	}
	slices.Sort(s.Namespaces)
	s.Problems = append(s.Problems, i.feed.missing()...)
	ofObjects := slices.Concat(i.store.unreadable.problems(), i.store.delivery.problems(), i.store.stuckCalls())
	for n := range ofObjects {
		if p := &ofObjects[n]; p.Object != "" {
			p.Object = named(s.Kind, p.Object)
		}
	}
	s.Problems = append(s.Problems, firstProblems(ofObjects)...)
	if !waiting.IsZero() {
		s.Lag = max(time.Since(waiting), 1)
	}
	if !s.Synced {
		s.Reason, s.Partly = i.feed.whyNotSynced(), i.options.Independent && i.feed.hasStarted()
	}
	if part := i.feed.part(); part != nil {
		s.Divided, s.ShardFilter = true, part.Side()
	}
	for _, r := range watches {
		opened, err := r.progress.state()
		s.WatchSince = requests.Earlier(s.WatchSince, opened)
		s.LastActivity = requests.Earlier(s.LastActivity, r.progress.lastData())
		if err != nil {
			s.LastError = err.Error()
		}
		problems, unauthorized := r.progress.problem()
		s.Problems = append(s.Problems, problems...)
		s.UnauthorizedSince = requests.Earlier(s.UnauthorizedSince, unauthorized)
		s.FullDecode = cmp.Or(s.FullDecode, r.specs.fullDecode())
	}
	return s
}

// Problem is something that does not work in one part of a program while the
// rest continues: an object that cannot be decoded, a namespace that was
// deleted, a watch that is refused. The process stays ready. /readyz and the
// status page name the problem, and the metric homeostat_problems counts it by
// its cause, for an alert.
//
// A source of problems computes them from its state whenever it is asked. So a
// problem that is solved disappears by itself. An informer returns them in
// Status.Problems, a controller in its Problems, and a program adds others with
// status.Options.Problems. Every probe and scrape reads them, so a source must
// not wait or send requests.
type Problem struct {
	// Check is the name of the check in /readyz, such as "informer/pods" or
	// "cluster/west". The informers and controllers of a program need not set
	// it.
	Check string
	// Object names the object that the problem is about, such as `default/a`,
	// `Secret "default/a"` or `namespace "b"`. It is empty if the problem is
	// about everything that the check covers.
	Object string
	// Cause describes the problem in a few constant words, such as
	// "Unauthorized" or "not decodable". It is a label of the metric, so it
	// must not contain names.
	Cause string
	// Reason is the error, without contents of objects. It may say more than
	// Cause.
	Reason string
	// Remedy is what a person can do, such as "correct or delete the object".
	// It is empty if waiting is enough.
	Remedy string
	// Since is when the problem began. It is zero if that is not known.
	Since time.Time
	// More is the number of further objects with the same cause. A source lists
	// at most ten problems with one cause, and sets More in the last of them.
	More int
}

// String returns the text in /readyz, without the name of the check.
func (p Problem) String() string {
	text := p.Reason
	if text == "" {
		text = p.Cause
	}
	if p.Object != "" {
		text = p.Object + ": " + text
	}
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	if p.More > 0 {
		text += fmt.Sprintf(" (and %d more)", p.More)
	}
	return text
}

// outage describes the time since a watch of a source last worked. A watch
// works if it has delivered an event, or has been open for a while. A list that
// succeeds does not end an outage.
type outage struct {
	began time.Time // when a request first failed after the last watch that worked, or zero
	err   error     // the last failure
	// cause is requests.CauseOf(err). All failures since causeSince have had
	// this cause.
	cause      string
	causeSince time.Time
}

// add records that a request has failed with err.
func (o *outage) add(err error) {
	now := time.Now()
	if o.began.IsZero() {
		o.began = now
	}
	if cause := requests.CauseOf(err); cause != o.cause {
		o.cause, o.causeSince = cause, now
	}
	o.err = err
}

// watchWorks reports whether the last request is a watch that works, or that
// worked until it ended. mu must be held.
func (p *progress) watchWorks() bool {
	r := p.request
	if r.phase != phaseWatch || r.opened.IsZero() {
		return false
	}
	end := r.ended
	if end.IsZero() {
		end = time.Now()
	}
	return p.delivered() || !p.mute.proven() && end.Sub(r.opened) >= requests.Steady
}

// noteEnd records, before the next request, whether the last request was
// a watch that worked. mu must be held.
func (p *progress) noteEnd() {
	p.noteMute()
	switch {
	case p.mute.proven():
		p.outage.add(requests.ErrMute)
	case p.watchWorks():
		p.outage = outage{}
	case p.request.phase == phaseWatch && !p.request.opened.IsZero():
		err := requests.ErrEndsAtOnce
		if p.request.reported != nil {
			err = fmt.Errorf("%w: the server ended the last watch with the error %q", err, p.request.reported.Error())
		}
		p.outage.add(err)
	}
}

// timedWatch records when the reflector stops the watch.
type timedWatch struct {
	watch.Interface
	progress *progress
}

// Stop implements [watch.Interface].
func (w timedWatch) Stop() {
	w.progress.mu.Lock()
	if r := &w.progress.request; r.ended.IsZero() {
		r.ended = time.Now()
	}
	w.progress.mu.Unlock()
	w.Interface.Stop()
}

// hang returns an outage that began with the request under way, or the zero
// outage if the request has been answered. Most requests end with an answer or
// an error. But a request does not end if code of the program blocks it and
// ignores its context. An example is a credential plugin that never returns. mu
// must be held.
func (p *progress) hang() outage {
	r := &p.request
	if !r.unanswered {
		return outage{}
	}
	silence := r.silence(time.Since(r.sent).Round(time.Second))
	return outage{began: r.sent, err: fmt.Errorf("%s: %s", r.phase, silence), cause: requests.CauseNoAnswer}
}

// current returns the outage with its last failure. A request that has had no
// answer for requests.OutageTime is a later failure than the ones before it,
// unless its answer made client-go wait. mu must be held.
func (p *progress) current() outage {
	o, hanging := p.outage, p.hang()
	switch {
	case o.began.IsZero():
		return hanging
	case hanging.began.IsZero() || time.Since(hanging.began) < requests.OutageTime,
		errors.Is(o.err, requests.ErrAsksToWait):
		return o
	}
	o.err, o.cause = hanging.err, hanging.cause
	return o
}

// problem returns the outage as a problem, if it has lasted for
// requests.OutageTime. It also returns when the server began to answer every
// request with 401, or zero if the last failure was a different one. Both
// results are empty while a watch works, and before the first list.
func (p *progress) problem() (found []Problem, unauthorizedSince time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.current()
	if o.began.IsZero() || p.watchWorks() || !p.synced.Load() {
		return nil, time.Time{}
	}
	if o.cause == requests.CauseUnauthorized {
		unauthorizedSince = o.causeSince
	}
	if time.Since(o.began) < requests.OutageTime {
		return nil, unauthorizedSince
	}
	problem := Problem{
		Cause: o.cause, Reason: redact.Text(o.err.Error()), Remedy: requests.RemedyOf(o.cause), Since: o.began,
	}
	if p.source.namespace != "" {
		problem.Object = fmt.Sprintf("namespace %q", p.source.namespace)
	}
	return []Problem{problem}, unauthorizedSince
}

// isMissing reports whether the first list has failed once, or has taken for
// requests.OutageTime, and has still not been delivered.
func (p *progress) isMissing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.synced.Load() && (!p.outage.began.IsZero() || time.Since(p.began) >= requests.OutageTime)
}

// missing returns a problem for each namespace whose first list is missing, if
// the namespaces are independent and others have been listed. It returns at
// most mostProblems of them.
func (f *feed[T]) missing() (problems []Problem) {
	if !f.options.Independent || !f.hasStarted() {
		return nil
	}
	watches, _ := f.current()
	for _, r := range watches {
		if !r.progress.isMissing() {
			continue
		}
		if len(problems) == mostProblems {
			problems[mostProblems-1].More++
			continue
		}
		problems = append(problems, Problem{
			Object: fmt.Sprintf("namespace %q", r.source.namespace), Cause: "namespace not listed",
			Reason: r.progress.whyNotSynced(), Since: r.progress.began,
			Remedy: "fix the cause in the reason; only the keys of this namespace wait",
		})
	}
	return problems
}

// stuckCalls returns a problem for each call of a function of the program that
// has not returned for a minute.
func (s *store[T]) stuckCalls() (problems []Problem) {
	for _, c := range s.calls.Hanging() {
		problems = append(problems, Problem{
			Object: strings.Trim(c.Key.String(), "/"), Cause: "stuck call", Since: c.Since,
			Reason: c.Function + " has not returned for a minute, and other objects wait for it",
			Remedy: "the function must not block",
		})
	}
	return problems
}

// mostProblems is how many problems with one cause are listed.
const mostProblems = 10
