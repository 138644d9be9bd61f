package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/gate"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/stacks"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

const mostBoots = 20 // how often a Run that returns by itself is called before that is a finding

// fleet has the replicas of the program.
type fleet struct {
	*core
	replicas []*replica
}

// replica is one replica of the program, over all its restarts.
type replica struct {
	id         int
	client     string
	cancel     context.CancelFunc
	done       chan error
	boots      int
	crashed    bool
	halted     bool      // whether the replica was told to stop since it last booted
	stuck      bool      // whether Run has failed to return, or must not be stopped; see unsynced
	stopped    time.Time // when the plan told it to stop; zero if it did not, or if the replica is about to boot again
	ends       int       // how often Run has returned without being told to
	ended      time.Time // when the context ended; zero if it has not ended, or the replica was killed
	killed     time.Time // when a cluster would kill the replica, if it has not ended by then
	waits      string    // describes what the replica was waiting for when a cluster would have killed it
	caches     []state.Cache
	cached     *state.Originals // the objects of the caches that use Env.Transform
	bootsAt    time.Time        // when the replica boots again; zero while it is running
	apartUntil time.Time        // until when a partition separates the replica from the server
	old        bool             // whether the replica runs the version of Case.Before
}

// newFleet returns a fleet whose replicas have not booted.
func newFleet(r *core) *fleet {
	f := &fleet{core: r}
	for id := range max(r.c.Replicas, 1) {
		f.replicas = append(f.replicas, &replica{id: id, client: backend.ClientOf(r.c.Replicas, id)})
	}
	return f
}

// isProgram reports whether a client belongs to a replica.
func isProgram(client string) bool { return strings.HasPrefix(client, backend.Program) }

// replicaOf returns the replica that uses the given client, or nil if the
// client does not belong to the program.
func (f *fleet) replicaOf(client string) *replica {
	for _, p := range f.replicas {
		if p.client == client {
			return p
		}
	}
	return nil
}

// crash kills a replica. The scheduler calls it for a fault, in the goroutine
// of the call, so Run may not have returned yet.
func (f *fleet) crash(client string) {
	p := f.replicaOf(client)
	p.crashed = true
	p.ended, p.killed = time.Time{}, time.Time{}
	p.cancel()
}

// boot starts a replica.
func (f *fleet) boot(ctx context.Context, p *replica) {
	p.boots++
	p.crashed, p.halted, p.bootsAt, p.stopped, p.caches = false, false, time.Time{}, time.Time{}, nil
	p.ended, p.killed, p.waits = time.Time{}, time.Time{}, ""
	boot, cancel := context.WithCancel(f.errs.inContext(gate.WithClient(context.WithoutCancel(ctx), p.client)))
	p.cancel = cancel
	p.done, p.cached = make(chan error, 1), &state.Originals{}
	done, b := p.done, backend.Boot{
		Context: boot, Config: f.sim.Config(p.client), Replica: p.id, Outside: f.world.outside,
		Remember:  func(c state.Cache) { p.caches = append(p.caches, c) },
		Originals: p.cached,
	}
	program := f.c.Run
	if p.old {
		program = f.c.Before
	}
	go func() {
		done <- program(&Env{boot: b})
		f.sched.Wake()
	}()
	f.progress = time.Now()
}

// bootAll starts all replicas, in order.
func (f *fleet) bootAll(ctx context.Context) {
	for _, p := range f.replicas {
		f.boot(ctx, p)
	}
}

// stop tells the replica to stop, while the rest of the world continues.
func (p *replica) stop() {
	p.halted, p.stopped = true, time.Now()
	p.end()
}

// end ends the context of the replica.
func (p *replica) end() {
	if p.ended.IsZero() {
		p.ended, p.killed = time.Now(), killAt()
	}
	p.cancel()
}

// restart marks a replica as down. It boots again at once, or, if there are
// other replicas, after enough time for one of them to take over the Lease.
func (f *fleet) restart(p *replica, reason string) {
	p.crashed = false
	p.bootsAt = time.Now()
	if len(f.replicas) > 1 {
		p.bootsAt = p.bootsAt.Add(takeOver)
	}
	f.line("down      " + p.client + ": " + reason)
}

// ended handles the return of a Run with err. A replica that the plan has
// stopped boots again. If the Run was not told to return, ended records a
// finding in a run without faults, after the plan, or after mostBoots boots.
// Otherwise the replica boots again after a back-off, as in a cluster.
func (f *fleet) ended(p *replica, err error) {
	f.exit(p)
	if f.mutated(err) {
		return
	}
	switch {
	case !p.stopped.IsZero():
		f.noteLate(p)
		p.stopped = time.Time{}
		f.restart(p, "stopped")
	case f.faultless || f.tail:
		f.find(report.Run, report.EndedEarly, fmt.Sprintf("Run returned although its context had not ended: %v", err))
	case p.boots >= mostBoots:
		f.find(report.Run, report.EndedEarly, fmt.Sprintf(
			"Run returned %d times although its context had not ended, the last time with: %v", p.boots, err))
	default:
		p.cancel()
		p.bootsAt = time.Now().Add(min(restartAfter<<p.ends, mostBackOff))
		p.ends++
		f.line(fmt.Sprintf("down      %s: Run returned: %v", p.client, err))
	}
}

// exit ends the process of a replica whose Run has returned. Later requests of
// its goroutines then have no effect. It is a finding if a write is under way,
// because a real server may or may not receive it, and the program cannot react
// to the answer.
func (f *fleet) exit(p *replica) {
	for _, a := range f.sched.Enabled() {
		write := a.Kind == apisim.Release && a.Call.Client == p.client && a.Call.Write()
		if write && !state.Ignored(a.Call.Resource.GroupResource()) {
			f.find(report.Stop, report.LeftBehind, "Run has returned while a write of the program was under way, and the "+
				"process ends before the program sees the answer: "+strings.TrimSpace(strings.TrimPrefix(describe(a), "call")))
		}
	}
	f.sim.Fence(p.client)
}

// mutated reports whether err, with which Run has returned, is the error of an
// informer that found a modified object. If so, it records a finding.
func (f *fleet) mutated(err error) bool {
	found := errors.Is(err, simhook.ErrModified)
	if found {
		f.find(report.Mutation, report.Modified, err.Error())
	}
	return found
}

// checkCaches compares the caches of all running replicas with the objects of
// the server. It also finds cached objects that were modified.
func (f *fleet) checkCaches() {
	for _, p := range f.replicas {
		if p.halted || !p.bootsAt.IsZero() {
			continue
		}
		if err := p.cached.Check(); err != nil {
			f.find(report.Mutation, report.Modified, err.Error())
			return
		}
		for _, c := range p.caches {
			objects, err := f.world.Objects(c.Resource)
			if err == nil {
				objects, err = f.sim.OnClock(p.client, objects)
			}
			if err != nil {
				f.find(report.Cache, report.NoReason, fmt.Sprintf("Env.Cache: %v", err))
				return
			}
			if edited, err := c.Check(objects); err != nil {
				oracle, reason := report.OfCache(edited)
				f.find(oracle, reason, err.Error())
				return
			}
		}
	}
}

// killAt returns the time at which a cluster kills a replica that is told to
// end now. It adds a second for a Run that ends just in time.
func killAt() time.Time { return time.Now().Add(killAfter + time.Second) }

// noteLate records a finding if the program's Run has returned only after a
// cluster would have killed the process. The simulation continues, and reports
// this finding at its end unless there is another finding.
func (f *fleet) noteLate(p *replica) {
	if p.waits != "" && f.out.overdue == nil {
		f.out.overdue = &report.Finding{
			Oracle: report.Stop, Reason: report.EndedLate, UpTo: len(f.out.lines), Text: fmt.Sprintf(
				"Run returned %v (virtual) after its context had ended: a cluster kills it after %v "+
					"(terminationGracePeriodSeconds), and at that time it was waiting here:\n%s",
				time.Since(p.ended).Round(time.Second), killAfter, p.waits),
		}
	}
	p.killed, p.waits = time.Time{}, ""
}

// unsynced records a finding about a manager of controller-runtime that has to
// end although its caches have not synced. Such a manager cannot be stopped, so
// it continues.
func (f *fleet) unsynced(p *replica) {
	p.stuck = true
	f.find(report.Run, report.NeverSynced, "the caches of controller-runtime's manager do not sync, and the manager "+
		"cannot be stopped meanwhile (kubernetes-sigs/controller-runtime#3440)")
}

// blocked records a finding about a Run that does not return. The bubble then
// cannot end, unless each remaining goroutine is blocked forever.
func (f *fleet) blocked(p *replica) {
	p.stuck = true
	reason := report.LeftBehind
	if stacks.Awaits() {
		reason = report.NotSynced
	}
	f.find(report.Stop, reason, fmt.Sprintf(
		"Run did not return within %v (virtual) after its context had ended\n%s", stopWithin, stacks.Diagnose()))
	f.out.stuck()
}
