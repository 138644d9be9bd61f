package apisim

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// Scheduler decides the order of actions in a server inside a testing/synctest
// bubble. It chooses which parked call is served, which watch gets its next
// event, and which fault is injected. One goroutine of the bubble drives it.
type Scheduler struct {
	server  *Server
	wake    chan struct{}
	onCrash func(client string)

	// The server's lock guards the fields below.

	parked    []*parked
	lateCalls []*parked
	extras    []*Extra
	calls     int
	stopped   bool

	trace   []string
	keep    int
	steps   int
	started time.Time
}

// parked is a call that waits for the scheduler.
type parked struct {
	id      int // number of the call
	req     *request
	name    string
	order   string // determines the order of calls with equal names
	verdict chan verdict
	stack   trail
}

type verdict struct {
	fault Fault
	err   error // the error with which the call ends, or nil
}

// Schedule returns a scheduler for the server. From then on, every call is
// parked until the scheduler releases it, except for calls of the admin,
// discovery, and updates of a series of events. Events of watches that are
// opened afterwards are held until the scheduler delivers them. keep is the
// number of trace lines to keep: 0 keeps all, and a negative number keeps none.
func (s *Server) Schedule(keep int) *Scheduler {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = &Scheduler{server: s, wake: make(chan struct{}, 1), keep: keep, started: time.Now()}
	return s.gate
}

// OnCrash sets a function that is called with the client's name before a crash
// fault fences the client. It runs in the goroutine that made the call, and
// should cancel the contexts of that process. It must not wait for the process
// to end.
func (d *Scheduler) OnCrash(f func(client string)) { d.onCrash = f }

// Add adds an extra action to the ones that the scheduler can take.
func (d *Scheduler) Add(e *Extra) {
	d.server.mu.Lock()
	defer d.server.mu.Unlock()
	d.extras = append(d.extras, e)
	d.signal()
}

// Stop ends all watches, and all parked and later calls with context.Canceled.
// The admin's calls are still served. Stop is the last step of a run, after the
// contexts of the processes were cancelled.
func (d *Scheduler) Stop() {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stopped = true
	for _, p := range d.parked {
		p.verdict <- verdict{err: context.Canceled}
	}
	d.parked, d.lateCalls = nil, nil
	for _, w := range s.watches {
		w.end(context.Canceled)
	}
	s.reap()
}

// Wake ends a running [Scheduler.Idle]. Call it after an event outside of the
// server.
func (d *Scheduler) Wake() { d.signal() }

// park waits for the scheduler, if there is one, and then serves the call. It
// serves an update of a series of events at once; see isSeriesUpdate.
func (s *Server) park(ctx context.Context, r *request) (*http.Response, error) {
	s.mu.Lock()
	d := s.gate
	if d == nil {
		s.mu.Unlock()
		return s.answer(ctx, r)
	}
	if d.stopped || s.isFenced(r.Call) {
		s.mu.Unlock()
		return nil, context.Canceled
	}
	if isSeriesUpdate(r) { // hooks run with the next commit, in the scheduler's goroutine
		answer, err := s.serve(r)
		s.mu.Unlock()
		return respond(answer, err), nil
	}
	d.calls++
	p := &parked{id: d.calls, req: r, name: r.String(), order: r.detail(), verdict: make(chan verdict, 1)}
	if r.Write() || r.Verb == "get" {
		p.stack = stack()
	}
	d.parked = append(d.parked, p)
	d.signal()
	s.mu.Unlock()
	select {
	case v := <-p.verdict:
		if v.err != nil {
			return nil, v.err
		}
		return d.applyFault(ctx, p, v.fault)
	case <-ctx.Done():
		s.mu.Lock()
		d.unpark(p)
		s.mu.Unlock()
		return nil, ctx.Err()
	}
}

// isSeriesUpdate reports whether the call updates the count of a series of
// events. client-go's broadcaster holds a mutex during this call. Other
// goroutines may wait for the mutex, and a bubble with a goroutine that waits
// for a mutex never becomes idle.
func isSeriesUpdate(r *request) bool {
	return r.Resource.Resource == "events" && r.Write() && bytes.Contains(r.body, []byte(`"series":{`))
}

func (d *Scheduler) unpark(p *parked) {
	d.parked = slices.DeleteFunc(d.parked, func(x *parked) bool { return x == p })
}

func (d *Scheduler) fence(client string, upTo int) {
	d.parked = slices.DeleteFunc(d.parked, func(p *parked) bool {
		dead := p.req.Client == client && p.req.Incarnation <= upTo
		if dead {
			p.verdict <- verdict{err: context.Canceled}
		}
		return dead
	})
}

func (d *Scheduler) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (s *store) kick() {
	if s.gate != nil {
		s.gate.signal()
	}
}

// Enabled waits until every goroutine of the bubble is blocked, and returns the
// possible actions in an order that depends only on their names.
func (d *Scheduler) Enabled() []Action {
	synctest.Wait()
	s := d.server
	s.mu.Lock()
	var actions []Action
	for _, p := range d.parked {
		actions = append(actions, Action{Kind: Release, Call: p.req.Call, name: p.name, order: p.order, call: p})
	}
	for _, p := range d.lateCalls {
		actions = append(actions, Action{Kind: Commit, Call: p.req.Call, name: p.name, order: p.order, call: p})
	}
	for _, w := range s.watches {
		switch {
		case w.gated && len(w.pending) > 0:
			actions = append(actions, Action{Kind: Deliver, Call: w.call, watch: w})
		case w.gated && w.wantsBookmark():
			actions = append(actions, Action{Kind: Bookmark, Call: w.call, watch: w})
		}
	}
	extras := slices.Clone(d.extras)
	s.mu.Unlock()
	for _, e := range extras {
		if e.Enabled != nil && !e.Enabled() {
			continue
		}
		kind := Work
		if e.Chaos {
			kind = Chaos
		}
		actions = append(actions, Action{Kind: kind, name: e.Name, extra: e})
	}
	slices.SortStableFunc(actions, compareActions)
	return actions
}

// Step takes the action, with the fault if it applies to the action.
func (d *Scheduler) Step(a Action, f Fault) {
	d.steps++
	d.note(a, f)
	switch a.Kind {
	case Deliver:
		d.deliver(a.watch, f)
	case Bookmark:
		d.bookmark(a.watch)
	case Release:
		d.release(a.call, f)
	case Commit:
		d.commitLate(a.call)
	case Work, Chaos:
		if a.extra.Once {
			d.server.mu.Lock()
			d.extras = slices.DeleteFunc(d.extras, func(e *Extra) bool { return e == a.extra })
			d.server.mu.Unlock()
		}
		a.extra.Do()
	}
}

func (d *Scheduler) deliver(w *watcher, f Fault) {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.ended || len(w.pending) == 0 {
		return
	}
	switch f {
	case Dropped:
		w.end(nil)
		s.reap()
	case Expired:
		w.table.compacted, w.table.history = s.version, nil
		w.pending = []delivery{{typ: watch.Error, failure: expired(w.seen, s.version)}}
		w.release()
	case Duplicated:
		// The second is delivered in the next step, because they must not race.
		w.pending = slices.Insert(w.pending, 1, w.pending[0])
		w.release()
	default:
		w.release()
	}
}

func (d *Scheduler) bookmark(w *watcher) {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.wantsBookmark() {
		w.pending = append(w.pending, delivery{typ: watch.Bookmark, version: s.version})
		w.release()
	}
}

func (d *Scheduler) release(p *parked, f Fault) {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(d.parked, p) {
		return
	}
	d.unpark(p)
	if f == Late {
		d.lateCalls = append(d.lateCalls, p)
	}
	p.verdict <- verdict{fault: f}
}

// commitLate executes a call whose caller has given up or died.
func (d *Scheduler) commitLate(p *parked) {
	s := d.server
	s.mu.Lock()
	d.lateCalls = slices.DeleteFunc(d.lateCalls, func(x *parked) bool { return x == p })
	if p.req.Write() {
		_, _ = s.serve(p.req)
	}
	s.mu.Unlock()
	s.runHooks()
}
