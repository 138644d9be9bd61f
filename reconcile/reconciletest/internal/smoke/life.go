package smoke

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// life is one process of a replica, from its start to its end.
type life struct {
	client string
	tail   bool            // the program has no work left, so it must not write
	cut    context.Context //nolint:containedctx // it ends when the process is cut off from the network
	sever  context.CancelFunc
	cancel context.CancelFunc // ends the context of the program
	cached *state.Originals   // the objects of the caches that use Env.Transform
	done   chan error

	mu     sync.Mutex // guards the fields below
	caches []state.Cache
}

// kill cuts the network of the process, and then ends its context.
func (l *life) kill() {
	l.sever()
	l.cancel()
}

func (l *life) killed() bool { return l.cut.Err() != nil }

// bootAll starts the replicas that are down, unless there is a finding.
func (t *trial) bootAll(ctx context.Context) {
	for i, l := range t.lives {
		if l == nil && t.journal.good() {
			t.lives[i] = t.boot(ctx, i)
		}
	}
}

func (t *trial) boot(ctx context.Context, replica int) *life {
	l := &life{client: backend.ClientOf(t.s.c.Replicas, replica), tail: t.tail, done: make(chan error, 1)}
	l.cached = &state.Originals{}
	l.cut, l.sever = context.WithCancel(context.Background())
	boot, cancel := context.WithCancel(ctx)
	l.cancel = cancel
	b := backend.Boot{
		Context: boot, Config: t.journal.wired(t.s.program, l, t.s.o.Timeout), Replica: replica, Outside: t.world.Outside(),
		Remember: func(c state.Cache) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.caches = append(l.caches, c)
		},
		Originals: l.cached,
	}
	go func() { l.done <- t.s.c.Parts().Boot(b) }()
	t.journal.moved()
	return l
}

// restartKilled starts the killed replicas again. It records a finding if a Run
// has returned by itself.
func (t *trial) restartKilled(ctx context.Context) {
	for i, l := range t.lives {
		if l == nil {
			continue
		}
		if l.killed() {
			t.join(l)
			t.journal.line("restart   " + l.client)
			t.lives[i] = t.boot(ctx, i)
			continue
		}
		select {
		case err := <-l.done:
			l.done <- err
			if !t.mutated(err) {
				t.journal.find(report.Run, report.EndedEarly,
					fmt.Sprintf("Run returned although its context had not ended: %v", err))
			}
		default:
		}
	}
}

// halt calls end for all replicas, and waits until they have ended.
func (t *trial) halt(end func(*life)) {
	for _, l := range t.lives {
		if l != nil {
			end(l)
		}
	}
	for i, l := range t.lives {
		if l != nil {
			t.join(l)
			t.lives[i] = nil
		}
	}
}

// join waits until Run has returned, and kills the process. It records a
// finding if Run has not returned within Options.Timeout, or has returned
// because a cached object was modified.
func (t *trial) join(l *life) {
	timer := time.NewTimer(t.s.o.Timeout)
	defer timer.Stop()
	select {
	case err := <-l.done:
		t.mutated(err)
	case <-timer.C:
		t.journal.find(report.Stop, report.LeftBehind, fmt.Sprintf(
			"Run did not return within %v after its context had ended", t.s.o.Timeout))
	}
	l.kill()
}

// mutated reports whether err, which Run has returned, says that a cached
// object was modified. If so, it records a finding.
func (t *trial) mutated(err error) bool {
	mutation, found := errors.AsType[*informer.MutationError](err)
	if found {
		t.journal.find(report.Mutation, report.Modified, mutation.Error())
	}
	return found
}
