package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// Of real time.
const (
	glance  = 100 * time.Millisecond // how often the trial looks
	stalled = time.Second            // a look that comes so late says that the machine is too slow to say what is at rest
	takes   = 5. / 3                 // of a Lease's duration, until another one has it: candidates look now and then
)

// trial is one run of a case on a real server.
type trial struct {
	s       *smoker
	killing bool // after each write, and for each step
	world   *reconciletest.World
	lives   []*life           // by replica; nil: it is down
	rests   [][]state.Located // what was there at each rest
	tail    bool              // nothing is left to write

	mu       sync.Mutex // guards what follows
	out      *outcome
	pending  []*write // that have no answer yet, or that the watches do not show yet
	writes   []*write // that have changed something
	marks    []mark
	leases   map[types.NamespacedName]*holding
	progress time.Time
	kills    int
	over     bool // it is only cleaned up
}

// mark says which writes the trace tells of up to a line.
type mark struct {
	version uint64
	lines   int
}

// holding is who wrote a Lease last, and until when the others have to wait if that was its end.
type holding struct {
	life  *life
	until time.Time
}

func (s *smoker) newTrial(killing bool) (*trial, error) {
	t := &trial{
		s: s, killing: killing, out: &outcome{rules: rules.Set{}}, leases: map[types.NamespacedName]*holding{},
		lives: make([]*life, max(s.c.Replicas, 1)), progress: time.Now(),
	}
	s.remote.config = t.wired(s.config, nil)
	var err error
	if s.remote.dynamic, err = dynamic.NewForConfig(s.remote.config); err != nil {
		return nil, err
	}
	t.world = s.c.On(s.remote)
	return t, nil
}

// play runs all of it. What it finds is in the outcome; an error says that there was nothing to judge.
func (t *trial) play(ctx context.Context) error {
	if err := t.load(); err != nil {
		return err
	}
	t.bootAll(ctx)
	t.settle(ctx)
	for i := 0; i < len(t.s.c.Workload) && t.good(); i++ {
		t.rest(ctx)
		t.step(ctx, t.s.c.Workload[i])
		t.settle(ctx)
	}
	t.goal(ctx)
	t.rest(ctx)
	if t.good() {
		t.line("restart: all is done, so nothing may be written")
		t.halt(func(l *life) { l.cancel() })
		t.tail = true
		t.bootAll(ctx)
		t.settle(ctx)
		t.lookBack(true)
	}
	t.halt(func(l *life) { l.cancel() })
	return ctx.Err()
}

// load makes the objects of the case.
func (t *trial) load() error {
	if err := backend.Begin(t.s.remote, t.s.c.Objects...); err != nil {
		return err
	}
	until := time.Now().Add(t.s.o.Timeout)
	for t.awaited() != "" && time.Now().Before(until) && wait(context.Background(), glance) {
	}
	t.lookBack(false)
	return nil
}

// step does the next step of the workload: while the program is down, if there are kills.
func (t *trial) step(ctx context.Context, step reconciletest.Step) {
	if !t.good() {
		return
	}
	if t.killing {
		t.line("down      the program")
		t.halt((*life).kill)
	}
	t.line("others    " + step.Name)
	limited, cancel := context.WithTimeout(ctx, t.s.o.Timeout)
	defer cancel()
	if err := step.Do(limited, t.world); err != nil {
		t.find(report.Workload, fmt.Sprintf("step %q of the workload: %v", step.Name, err))
	}
	if t.killing {
		t.line("restart   the program")
		t.bootAll(ctx)
	}
}

// settle waits until nobody has written for long enough.
func (t *trial) settle(ctx context.Context) {
	t.moved()
	looked, kills := time.Now(), t.killed()
	until := looked.Add(t.s.o.Timeout)
	for t.good() {
		t.tend(ctx)
		now := time.Now()
		if now.Sub(looked) > stalled {
			t.moved()
		}
		if n := t.killed(); n != kills {
			kills, until = n, now.Add(t.s.o.Timeout)
		}
		looked = now
		quiet, why := now.Sub(t.lastProgress()) >= t.s.o.Rest, ""
		if quiet {
			if why = t.awaited(); why == "" {
				return
			}
		}
		if now.After(until) {
			t.find(report.Rest, t.restless(why))
		}
		if !wait(ctx, glance) {
			return
		}
	}
}

// restless says why it is not at rest.
func (t *trial) restless(why string) string {
	text := fmt.Sprintf("it has not come to rest within %v", t.s.o.Timeout)
	if why != "" {
		return text + ": " + why + " (" + report.NoControllers + ")"
	}
	if c := t.s.mirror.lastCommit(); c != nil {
		text += fmt.Sprintf(": the last write, %v ago, was %s, by %s", time.Since(c.at).Round(time.Millisecond), c.words(),
			t.writer(c))
	}
	return text
}

// writer is whose write it was.
func (t *trial) writer(c *commit) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.writes {
		if w.version == c.version && w.life != nil {
			return w.life.client
		}
	}
	if c.new == nil {
		return "somebody"
	}
	name, last := "somebody", time.Time{}
	for _, f := range c.new.GetManagedFields() {
		if f.Time != nil && !f.Time.Time.Before(last) {
			name, last = f.Manager, f.Time.Time
		}
	}
	return name
}

// awaited is what cannot be over yet, although nobody writes; "": nothing.
func (t *trial) awaited() string {
	t.mu.Lock()
	t.pending = slices.DeleteFunc(t.pending, func(w *write) bool { return w.changed && t.s.mirror.shows(w) })
	defer t.mu.Unlock()
	for _, w := range t.pending {
		return "the watches do not show yet: " + w.text
	}
	for key, h := range t.leases {
		if h.life.killed() && time.Now().Before(h.until) {
			return fmt.Sprintf("the Lease %s is of a replica that was killed, and has not expired", key)
		}
	}
	return t.s.mirror.unfinished(t.s.remote.before)
}

// hear waits for the answers to the writes that are under way; each has its limit.
func (t *trial) hear() {
	unanswered := func(w *write) bool { return !w.changed }
	for waiting := true; waiting; {
		t.tell(func() { waiting = slices.ContainsFunc(t.pending, unanswered) })
		waiting = waiting && wait(context.Background(), glance)
	}
}

// goal must plan.Hold now, or soon: others may be slow.
func (t *trial) goal(ctx context.Context) {
	if t.s.c.Goal == nil || !t.good() {
		return
	}
	until := time.Now().Add(t.s.o.Rest)
	for {
		err := t.s.c.Goal(t.world)
		if err == nil {
			return
		}
		if time.Now().After(until) || !wait(ctx, glance) {
			t.find(report.Goal, err.Error())
			return
		}
	}
}

// rest keeps what the server has when the program is at rest.
func (t *trial) rest(ctx context.Context) {
	t.lookBack(true)
	t.tell(func() { t.out.restedAt = append(t.out.restedAt, len(t.out.lines)) })
	t.rests = append(t.rests, t.s.past.all(t.s.remote.resources, t.s.remote.visible))
	t.lookIntoCaches(ctx)
}

// lookBack goes through what was written since, in order, and holds Always against it.
func (t *trial) lookBack(judge bool) {
	remote := t.s.remote
	for _, c := range t.s.mirror.take() {
		t.s.past.advance(c)
		if !judge || t.s.c.Always == nil || !t.good() {
			continue
		}
		remote.asOf = t.s.past
		err := t.s.c.Always(t.world)
		remote.asOf = nil
		if err != nil {
			t.find(report.Always, fmt.Sprintf("after %s, by %s: %v", c.words(), t.writer(c), err))
			t.tell(func() { t.out.finding.UpTo = t.upTo(c.version) })
		}
	}
}

// upTo are the lines of the trace until a write. The lock is held.
func (t *trial) upTo(version uint64) int {
	for _, m := range t.marks {
		if m.version >= version {
			return m.lines
		}
	}
	return len(t.out.lines)
}

// lookIntoCaches holds the caches that the program has named against the server; they may be a little late.
func (t *trial) lookIntoCaches(ctx context.Context) {
	until := time.Now().Add(t.s.o.Rest)
	for t.good() {
		oracle, err := t.differs()
		if err == nil {
			return
		}
		if time.Now().After(until) || !wait(ctx, glance) {
			t.find(oracle, err.Error())
		}
		t.lookBack(true)
	}
}

func (t *trial) differs() (string, error) {
	for _, l := range t.lives {
		if l == nil {
			continue
		}
		t.mu.Lock()
		caches := slices.Clone(l.caches)
		t.mu.Unlock()
		for _, c := range caches {
			r, err := backend.Find(t.s.remote, c.Resource)
			if err != nil {
				return report.Cache, fmt.Errorf("Env.Cache: %w", err)
			}
			if edited, err := c.Check(t.s.past.objects(r, everything)); err != nil {
				return report.OfCache(edited), err
			}
		}
	}
	return "", nil
}

func (t *trial) mutated(err error) bool {
	mutation, found := errors.AsType[*informer.MutationError](err)
	if found {
		t.find(report.Mutation, mutation.Error())
	}
	return found
}

// asks notes a read of the program, or of others.
func (t *trial) asks(c apisim.Call, l *life) {
	if state.Ignored(c.Resource.Resource) {
		t.tell(func() { t.allow(c, l) })
		return
	}
	t.s.mirror.touch(c.Resource.GroupResource())
	_, text, _ := strings.Cut(c.String(), " ")
	t.tell(func() {
		if t.allow(c, l); l != nil && !t.over {
			t.out.lines = append(t.out.lines, "call      "+text+t.of(l))
			t.out.calls++
		}
	})
}

// allow keeps what the program needs a rule for. The lock is held.
func (t *trial) allow(c apisim.Call, l *life) {
	if l != nil {
		t.out.rules.Add(c)
	}
}

func (t *trial) of(l *life) string {
	if len(t.lives) > 1 {
		return "   of " + l.client
	}
	return ""
}

// begin notes a write that goes to the server now.
func (t *trial) begin(w *write) {
	r := w.call.Resource.GroupResource()
	if !state.Ignored(r.Resource) {
		t.s.mirror.touch(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.s.mirror.object(r, w.key()); o != nil {
		w.known = versionOf(o)
	}
	for _, earlier := range t.writes {
		if earlier.call.Resource.GroupResource() == r && earlier.key() == w.key() {
			w.known = max(w.known, earlier.version)
		}
	}
	t.pending = append(t.pending, w)
}

// end notes what came of it, nil being no answer; and it may be the end of the program.
func (t *trial) end(w *write, resp *http.Response, body []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if resp != nil {
		w.answered(resp.StatusCode, body)
	}
	if w.changed {
		t.writes = append(t.writes, w)
	} else {
		t.pending = slices.DeleteFunc(t.pending, func(p *write) bool { return p == w })
	}
	t.allow(w.call, w.life)
	if w.life == nil {
		return
	}
	t.hold(w)
	if state.Ignored(w.call.Resource.Resource) {
		return
	}
	t.progress = time.Now()
	t.out.calls++
	text := "call      " + w.text + t.of(w.life)
	if w.code == 0 || w.code >= http.StatusMultipleChoices {
		text += fmt.Sprintf("   = %d", w.code)
	}
	if w.changed {
		t.out.writes++
		if w.life.tail && t.out.finding == nil {
			t.out.finding = &report.Finding{Oracle: report.Tail, UpTo: len(t.out.lines) + 1, Text: "" +
				"all was done, and a restart wrote again: " + w.text}
		}
	}
	if w.changed && t.killing && !w.life.tail && t.kills < t.s.o.Kills && !w.life.killed() {
		t.kills++
		text += "   <<< KILLED AFTER"
		w.life.kill()
	}
	t.out.lines = append(t.out.lines, text)
	t.marks = append(t.marks, mark{version: w.version, lines: len(t.out.lines)})
}

// hold keeps who has a Lease. The lock is held.
func (t *trial) hold(w *write) {
	if w.call.Resource.Resource != "leases" || !w.changed {
		return
	}
	if before := t.leases[w.key()]; before == nil || before.life != w.life {
		t.progress = time.Now()
	}
	if w.lease.HolderIdentity == "" {
		delete(t.leases, w.key())
		return
	}
	duration := time.Duration(takes * float64(w.lease.LeaseDurationSeconds) * float64(time.Second))
	t.leases[w.key()] = &holding{life: w.life, until: time.Now().Add(duration)}
}

func (t *trial) tell(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

func (t *trial) line(text string) {
	t.tell(func() { t.out.lines = append(t.out.lines, text) })
}

// find keeps the first finding.
func (t *trial) find(oracle, text string) {
	t.tell(func() {
		if t.out.finding == nil {
			t.out.finding = &report.Finding{Oracle: oracle, Text: text, UpTo: len(t.out.lines)}
		}
	})
}

// good tells whether nothing was found yet.
func (t *trial) good() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.finding == nil
}

func (t *trial) killed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kills
}

// moved says that something goes on.
func (t *trial) moved() {
	t.tell(func() { t.progress = time.Now() })
}

func (t *trial) lastProgress() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.s.mirror.lastCommit(); c != nil && c.at.After(t.progress) {
		return c.at
	}
	return t.progress
}
