package smoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/rules"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// These are real times, not virtual ones.
const (
	pollInterval = 100 * time.Millisecond
	stalled      = time.Second // a poll that is this late shows that the machine is too slow to judge a rest
)

// trial is one run of a case on a real server.
type trial struct {
	s       *smoker
	killing bool // whether the program is killed after its writes, at most Options.Kills times, and before each step
	journal *journal
	world   *reconciletest.World
	lives   []*life           // the processes, by replica; nil while a replica is down
	rests   [][]state.Located // the objects at each rest
	tail    bool              // whether the program has no work left; it must then not write
}

func (s *smoker) newTrial(killing bool) (*trial, error) {
	t := &trial{s: s, killing: killing, lives: make([]*life, max(s.c.Replicas, 1))}
	t.journal = &journal{
		mirror: s.mirror, granted: s.granted, replicated: len(t.lives) > 1, progress: time.Now(),
		leases: map[types.NamespacedName]*holding{},
		out:    outcome{rules: rules.Set{}},
	}
	if killing {
		t.journal.killsLeft, t.journal.plan = s.o.Kills, plan.Plan{{Kind: plan.AtCall, Fault: apisim.CrashAfter}}
	}
	s.remote.config = t.journal.wired(s.config, nil, s.o.Timeout)
	var err error
	if s.remote.dynamic, err = dynamic.NewForConfig(s.remote.config); err != nil {
		return nil, err
	}
	t.world = s.c.Parts().World(s.remote)
	return t, nil
}

// play makes the whole trial, and records findings in the journal. It returns
// an error if the case could not be played. There was then nothing to judge.
func (t *trial) play(ctx context.Context) error {
	if err := t.load(); err != nil {
		return err
	}
	t.bootAll(ctx)
	t.waitQuiet(ctx)
	for i := 0; i < len(t.s.c.Workload) && t.journal.good(); i++ {
		t.rest(ctx)
		t.step(ctx, t.s.c.Workload[i])
		t.waitQuiet(ctx)
	}
	t.goal(ctx)
	t.rest(ctx)
	if t.journal.good() {
		t.journal.line("restart: all is done, so nothing may be written")
		t.halt(func(l *life) { l.cancel() })
		t.tail = true
		t.bootAll(ctx)
		t.waitQuiet(ctx)
		t.catchUp(true)
	}
	t.halt(func(l *life) { l.cancel() })
	return ctx.Err()
}

// load creates the objects of the case, and waits for at most Options.Timeout
// until awaited returns "".
func (t *trial) load() error {
	if err := backend.Begin(t.s.remote, t.s.c.Objects...); err != nil {
		return err
	}
	deadline := time.Now().Add(t.s.o.Timeout)
	for t.awaited() != "" && time.Now().Before(deadline) && wait(context.Background(), pollInterval) {
	}
	t.catchUp(false)
	return nil
}

// step does a step of the workload. If the trial has kills, it does the step
// while the program is down. After a finding, it does nothing.
func (t *trial) step(ctx context.Context, step reconciletest.Step) {
	if !t.journal.good() {
		return
	}
	if t.killing {
		t.journal.line("down      the program")
		t.halt((*life).kill)
	}
	t.journal.line("others    " + step.Name)
	limited, cancel := context.WithTimeout(ctx, t.s.o.Timeout)
	defer cancel()
	if err := step.Do(limited, t.world); err != nil {
		t.journal.find(report.Workload, report.StepFails, fmt.Sprintf("step %q of the workload: %v", step.Name, err))
	}
	if t.killing {
		t.journal.line("restart   the program")
		t.bootAll(ctx)
	}
}

// waitQuiet waits until no client has written for Options.Rest, and awaited
// returns "". In the meantime it restarts killed replicas. It records a finding
// if the trial does not come to rest within Options.Timeout after the last
// kill.
func (t *trial) waitQuiet(ctx context.Context) {
	t.journal.moved()
	looked := time.Now()
	deadline := looked.Add(t.s.o.Timeout)
	_, kills := t.journal.status()
	for t.journal.good() {
		t.restartKilled(ctx)
		now := time.Now()
		if now.Sub(looked) > stalled {
			t.journal.moved()
		}
		if _, n := t.journal.status(); n != kills {
			kills, deadline = n, now.Add(t.s.o.Timeout)
		}
		looked = now
		pending := ""
		if now.Sub(t.journal.lastProgress()) >= t.s.o.Rest {
			if pending = t.awaited(); pending == "" {
				return
			}
		}
		if now.After(deadline) {
			t.restless(pending)
		}
		if !wait(ctx, pollInterval) {
			return
		}
	}
}

// restless records that the program has not come to rest. awaited describes
// what the cluster has not finished, or is empty.
func (t *trial) restless(awaited string) {
	text := fmt.Sprintf("the program has not come to rest within %v", t.s.o.Timeout)
	if awaited != "" {
		t.journal.find(report.Rest, report.NoControllers, text+": "+awaited)
		return
	}
	if c := t.s.mirror.lastCommit(); c != nil {
		text += fmt.Sprintf(": the last write, %v ago, was %s, by %s", time.Since(c.time).Round(time.Millisecond), c.words(),
			t.journal.writer(c))
	}
	t.journal.find(report.Rest, report.WakesItself, text)
}

// awaited describes what still has to happen before the trial is at rest
// although no client writes: what journal.awaited describes, or the cluster has
// to finish deleting an object. It returns "" if neither is the case.
func (t *trial) awaited() string {
	if reason := t.journal.awaited(); reason != "" {
		return reason
	}
	return t.s.mirror.unfinished(t.s.remote.older)
}

// goal records a finding if Goal does not hold within a short time. It does not
// have to hold at once, because other controllers may be slow.
func (t *trial) goal(ctx context.Context) {
	if t.s.c.Goal == nil || !t.journal.good() {
		return
	}
	deadline := time.Now().Add(t.s.o.Rest)
	for {
		err := t.s.c.Goal(t.world)
		if err == nil {
			return
		}
		if time.Now().After(deadline) || !wait(ctx, pollInterval) {
			t.journal.find(report.Goal, report.ReasonFor(t.journal.plan, report.Seen{End: true}), err.Error())
			return
		}
	}
}

// rest records the server's objects while the program is at rest, and checks
// the caches.
func (t *trial) rest(ctx context.Context) {
	t.catchUp(true)
	t.journal.rested()
	t.rests = append(t.rests, t.s.past.located(t.s.remote.resources, t.s.remote.visible))
	t.checkCaches(ctx)
}

// catchUp goes through the writes since the last call, in order. If judge is
// set, it checks Always after each write to an object that is visible in the
// World, until there is a finding.
func (t *trial) catchUp(judge bool) {
	remote := t.s.remote
	for _, c := range t.s.mirror.drain() {
		t.s.past.advance(c)
		if !judge || t.s.c.Always == nil || !t.journal.good() || !remote.visible(c.resource.Resource, cmp.Or(c.new, c.old)) {
			continue
		}
		remote.asOf = t.s.past
		err := t.s.c.Always(t.world)
		remote.asOf = nil
		if err != nil {
			t.journal.findAfter(c.version, report.Always, report.ReasonFor(t.journal.plan, report.Seen{}),
				fmt.Sprintf("after %s, by %s: %v", c.words(), t.journal.writer(c), err))
		}
	}
}

// checkCaches compares the registered caches of the program with the server's
// objects. It records a finding if they still differ after Options.Rest, the
// time that late caches have to catch up, or if a cached object was modified.
func (t *trial) checkCaches(ctx context.Context) {
	deadline := time.Now().Add(t.s.o.Rest)
	for t.journal.good() {
		oracle, reason, err := t.checkCachesOnce()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || !wait(ctx, pollInterval) {
			t.journal.find(oracle, reason, err.Error())
		}
		t.catchUp(true)
	}
}

func (t *trial) checkCachesOnce() (oracle string, reason report.Reason, err error) {
	for _, l := range t.lives {
		if l == nil {
			continue
		}
		if err := l.cached.Check(); err != nil {
			return report.Mutation, report.Modified, err
		}
		l.mu.Lock()
		caches := slices.Clone(l.caches)
		l.mu.Unlock()
		for _, c := range caches {
			r, err := backend.Find(t.s.remote, c.Resource)
			if err != nil {
				return report.Cache, report.NoReason, fmt.Errorf("checking a cache of Env.Cache: %w", err)
			}
			if edited, err := c.Check(t.s.past.objects(r, includeAll)); err != nil {
				oracle, reason := report.OfCache(edited)
				return oracle, reason, err
			}
		}
	}
	return "", report.NoReason, nil
}

// clean deletes new objects and restores the content of changed objects. It
// deletes a namespace after its contents.
func (t *trial) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.s.o.Timeout)
	defer cancel()
	for t.journal.unanswered() { // each request has a time limit
		wait(context.Background(), pollInterval)
	}
	writes := t.journal.close()
	var creations []*write
	for _, w := range slices.Backward(writes) {
		if w.created {
			creations = append(creations, w)
		}
	}
	for _, w := range creations {
		if err := t.s.remote.remove(ctx, w); err != nil {
			return fmt.Errorf("deleting %s: %w", w.title(), err)
		}
	}
	for _, w := range creations {
		for !t.s.remote.isDeleted(ctx, w) {
			if !wait(ctx, pollInterval) {
				return fmt.Errorf("waiting for the deletion of %s: %w (%s)", w.title(), ctx.Err(), report.NoControllers.Hint())
			}
		}
	}
	err := t.s.remote.restore(ctx, writes)
	for reason := t.awaited(); reason != ""; reason = t.awaited() {
		if !wait(ctx, pollInterval) {
			return errors.Join(err, fmt.Errorf("waiting for the cluster: %s (%s)", reason, report.NoControllers.Hint()))
		}
	}
	t.catchUp(false)
	return err
}
