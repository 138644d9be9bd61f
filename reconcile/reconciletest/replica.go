package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// replica is one process of the program and its restarts.
type replica struct {
	id      int
	client  string
	cancel  context.CancelFunc
	done    chan error
	boots   int
	crashed bool
	halted  bool      // its Run is over, or about to be: it was told to
	stopped time.Time // when it was told to stop by the plan
	caches  []state.Cache
	down    time.Time // when it boots again; zero: it runs
	apart   time.Time // until when the network does not reach it
}

func newReplicas(n int) []*replica {
	var all []*replica
	for id := range max(n, 1) {
		all = append(all, &replica{id: id, client: backend.ClientOf(n, id)})
	}
	return all
}

func ofProgram(client string) bool { return strings.HasPrefix(client, backend.Program) }

func (r *run) replica(client string) *replica {
	for _, p := range r.replicas {
		if p.client == client {
			return p
		}
	}
	return nil
}

// boot starts an incarnation of a replica.
func (r *run) boot(ctx context.Context, p *replica) {
	p.boots++
	p.crashed, p.halted, p.down, p.stopped, p.caches = false, false, time.Time{}, time.Time{}, nil
	boot, cancel := context.WithCancel(context.WithValue(ctx, clientKey{}, p.client))
	p.cancel = cancel
	p.done = make(chan error, 1)
	done, b := p.done, backend.Boot{
		Context: boot, Config: r.sim.Config(p.client), Replica: p.id, Outside: r.world.outside,
		Remember: func(c state.Cache) { p.caches = append(p.caches, c) },
	}
	go func() { done <- r.c.Boot(b) }()
	r.progress = time.Now()
}

// stop tells the program to stop; the rest of the world goes on.
func (p *replica) stop() {
	p.halted, p.stopped = true, time.Now()
	p.cancel()
}

func (r *run) bootAll(ctx context.Context) {
	for _, p := range r.replicas {
		r.boot(ctx, p)
	}
}

// haltAll stops the replicas in good order: their calls are served until they have returned.
func (r *run) haltAll() {
	for _, p := range r.replicas {
		p.apart = time.Time{}
		if p.down.IsZero() {
			p.cancel()
			r.join(p, true)
		}
		p.halted, p.down, p.stopped = true, time.Time{}, time.Time{}
	}
}

// returned looks whether a replica has crashed, ended, or is to boot again.
func (r *run) returned(ctx context.Context) bool {
	for _, p := range r.replicas {
		switch {
		case p.halted && p.stopped.IsZero() && p.down.IsZero():
			continue
		case !p.stopped.IsZero() && time.Since(p.stopped) > stopWithin:
			stuck(stopWithin)
		case p.crashed:
			r.join(p, false)
			r.restart(p, "crashed")
			return true
		case !p.down.IsZero():
			if time.Now().Before(p.down) {
				continue
			}
			r.line("restart   " + p.client)
			r.boot(ctx, p)
			return true
		}
		select {
		case err := <-p.done:
			p.done <- err
			r.ended(p, err)
			return true
		default:
		}
	}
	return false
}

// restart leaves the replica down: for a while if another one can take over.
func (r *run) restart(p *replica, why string) {
	p.crashed = false
	p.down = time.Now()
	if len(r.replicas) > 1 {
		p.down = p.down.Add(takeOver)
	}
	r.line("down      " + p.client + ": " + why)
}

// ended judges a Run that has returned by itself.
func (r *run) ended(p *replica, err error) {
	if r.mutated(err) {
		return
	}
	switch {
	case !p.stopped.IsZero():
		p.stopped = time.Time{}
		r.restart(p, "stopped")
	case r.faultless || r.tail:
		r.find(report.Run, fmt.Sprintf("Run returned although its context had not ended: %v", err))
	case p.boots >= mostBoots:
		r.find(report.Run, fmt.Sprintf("Run returned %d times although its context had not ended, at last: %v",
			p.boots, err))
	default:
		p.cancel()
		p.down = time.Now().Add(restartAfter)
		r.line(fmt.Sprintf("down      %s: Run returned: %v", p.client, err))
	}
}

// join waits until Run has returned.
func (r *run) join(p *replica, serve bool) {
	deadline := time.Now().Add(stopWithin)
	for range 100_000 {
		enabled := r.sched.Enabled()
		select {
		case err := <-p.done:
			p.done <- err
			r.mutated(err)
			return
		default:
		}
		if time.Now().After(deadline) {
			break
		}
		if r.gate.open(r.chance()) {
			continue
		}
		if a, f, ok := r.pick(enabled); ok && serve {
			r.take(a, f)
			continue
		}
		r.sched.Idle(time.Second)
	}
	stuck(stopWithin)
}

// checkCaches compares the caches of the replicas that run with the server.
func (r *run) checkCaches() {
	for _, p := range r.replicas {
		if p.halted || !p.down.IsZero() {
			continue
		}
		for _, c := range p.caches {
			objects, err := r.world.Objects(c.Resource)
			if err != nil {
				r.find(report.Cache, fmt.Sprintf("Env.Cache: %v", err))
				return
			}
			if edited, err := c.Check(objects); err != nil {
				r.find(report.OfCache(edited), err.Error())
				return
			}
		}
	}
}

// mutated reports whether Run has returned because an informer found a modified object.
func (r *run) mutated(err error) bool {
	mutation, found := errors.AsType[*informer.MutationError](err)
	if found {
		r.find(report.Mutation, mutation.Error())
	}
	return found
}
