package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeostat/homeostat/internal/simhook"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/gate"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/stacks"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

const mostBoots = 20 // of a Run that returns by itself

// fleet is the replicas of the program.
type fleet struct {
	*core
	replicas []*replica
}

// replica is one process of the program and its restarts.
type replica struct {
	id      int
	client  string
	cancel  context.CancelFunc
	done    chan error
	boots   int
	crashed bool
	halted  bool      // its Run has returned, or was told to
	stuck   bool      // its Run does not return
	stopped time.Time // when the plan told it to stop
	ended   time.Time // when its context ended; zero: it has not, or it was killed
	killed  time.Time // when a cluster would kill it then
	waits   string    // its explanation at that time
	caches  []state.Cache
	down    time.Time // when it boots again; zero: it runs
	apart   time.Time // until when the network does not reach it
	old     bool      // it is of the version of Case.Before
}

// newFleet makes replicas that have not booted.
func newFleet(r *core) *fleet {
	f := &fleet{core: r}
	for id := range max(r.c.Replicas, 1) {
		f.replicas = append(f.replicas, &replica{id: id, client: backend.ClientOf(r.c.Replicas, id)})
	}
	return f
}

// ofProgram reports whether a client belongs to a replica.
func ofProgram(client string) bool { return strings.HasPrefix(client, backend.Program) }

// of returns the replica with that client, nil if it is not the program's.
func (f *fleet) of(client string) *replica {
	for _, p := range f.replicas {
		if p.client == client {
			return p
		}
	}
	return nil
}

// crash kills a replica. The scheduler calls it for a fault, in the goroutine
// of the call: Run may not have returned yet.
func (f *fleet) crash(client string) {
	p := f.of(client)
	p.crashed = true
	p.ended, p.killed = time.Time{}, time.Time{}
	p.cancel()
}

// boot starts an incarnation of a replica.
func (f *fleet) boot(ctx context.Context, p *replica) {
	p.boots++
	p.crashed, p.halted, p.down, p.stopped, p.caches = false, false, time.Time{}, time.Time{}, nil
	p.ended, p.killed, p.waits = time.Time{}, time.Time{}, ""
	boot, cancel := context.WithCancel(f.errs.with(gate.With(context.WithoutCancel(ctx), p.client)))
	p.cancel = cancel
	p.done = make(chan error, 1)
	done, b := p.done, backend.Boot{
		Context: boot, Config: f.sim.Config(p.client), Replica: p.id, Outside: f.world.outside,
		Remember: func(c state.Cache) { p.caches = append(p.caches, c) },
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

// stop tells the replica to stop; everything else keeps running.
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

// restart leaves the replica down: until the next action, or for a while if a
// different replica can take over the Lease meanwhile.
func (f *fleet) restart(p *replica, why string) {
	p.crashed = false
	p.down = time.Now()
	if len(f.replicas) > 1 {
		p.down = p.down.Add(takeOver)
	}
	f.line("down      " + p.client + ": " + why)
}

// ended judges a Run that has returned by itself.
func (f *fleet) ended(p *replica, err error) {
	if f.mutated(err) {
		return
	}
	switch {
	case !p.stopped.IsZero():
		f.late(p)
		p.stopped = time.Time{}
		f.restart(p, "stopped")
	case f.faultless || f.tail:
		f.find(report.Run, report.EndedEarly, fmt.Sprintf("Run returned although its context had not ended: %v", err))
	case p.boots >= mostBoots:
		f.find(report.Run, report.EndedEarly, fmt.Sprintf(
			"Run returned %d times although its context had not ended, at last: %v", p.boots, err))
	default:
		p.cancel()
		p.down = time.Now().Add(restartAfter)
		f.line(fmt.Sprintf("down      %s: Run returned: %v", p.client, err))
	}
}

// mutated reports whether Run has returned because an informer found a modified
// object.
func (f *fleet) mutated(err error) bool {
	found := errors.Is(err, simhook.ErrModified)
	if found {
		f.find(report.Mutation, report.Modified, err.Error())
	}
	return found
}

// checkCaches compares the caches of the replicas that run with the server.
func (f *fleet) checkCaches() {
	for _, p := range f.replicas {
		if p.halted || !p.down.IsZero() {
			continue
		}
		for _, c := range p.caches {
			objects, err := f.world.Objects(c.Resource)
			if err != nil {
				f.find(report.Cache, report.NoReason, fmt.Sprintf("Env.Cache: %v", err))
				return
			}
			if edited, err := c.Check(objects); err != nil {
				oracle, why := report.OfCache(edited)
				f.find(oracle, why, err.Error())
				return
			}
		}
	}
}

// killAt returns when a cluster kills a replica that is told to end now, plus a
// second for a Run that ends just then.
func killAt() time.Time { return time.Now().Add(killAfter + time.Second) }

// late notes a Run that has returned after its cluster would have killed it.
// The run continues: its end reports this.
func (f *fleet) late(p *replica) {
	if p.waits != "" && f.out.late == nil {
		f.out.late = &report.Finding{
			Oracle: report.Stop, Reason: report.EndedLate, UpTo: len(f.out.lines), Text: fmt.Sprintf(
				"Run returned %v (virtual) after its context had ended: a cluster kills it after %v "+
					"(terminationGracePeriodSeconds), and then it waited here:\n%s",
				time.Since(p.ended).Round(time.Second), killAfter, p.waits),
		}
	}
	p.killed, p.waits = time.Time{}, ""
}

// unsynced is for a manager of controller-runtime that is to end and whose
// caches have not synced: it could not be stopped, and stays as it is.
func (f *fleet) unsynced(p *replica) {
	p.stuck = true
	f.find(report.Run, report.NeverSynced, "the caches of controller-runtime's manager do not sync, and the manager "+
		"cannot be stopped meanwhile (kubernetes-sigs/controller-runtime#3440)")
}

// blocked is for a Run that does not return. The bubble cannot end then, unless
// each goroutine that is left is blocked forever.
func (f *fleet) blocked(p *replica) {
	p.stuck = true
	why := report.LeftBehind
	if stacks.Awaits() {
		why = report.NotSynced
	}
	f.find(report.Stop, why, fmt.Sprintf(
		"Run did not return within %v (virtual) after its context had ended\n%s", stopWithin, stacks.Diagnose()))
	f.out.stuck()
}
