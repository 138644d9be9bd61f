package live

import (
	"context"
	"fmt"
	"time"

	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// life is one start of a replica until its end.
type life struct {
	client  string
	replica int
	tail    bool            // nothing is left to write
	cut     context.Context //nolint:containedctx // it is the wire
	sever   context.CancelFunc
	cancel  context.CancelFunc // the context of the program
	done    chan error
	caches  []state.Cache
}

// kill takes the network away, and then everything else.
func (l *life) kill() {
	l.sever()
	l.cancel()
}

func (l *life) killed() bool { return l.cut.Err() != nil }

// bootAll starts the replicas that do not run.
func (t *trial) bootAll(ctx context.Context) {
	for i, l := range t.lives {
		if l == nil && t.good() {
			t.lives[i] = t.boot(ctx, i)
		}
	}
}

func (t *trial) boot(ctx context.Context, replica int) *life {
	l := &life{
		client: backend.ClientOf(t.s.c.Replicas, replica), replica: replica, tail: t.tail, done: make(chan error, 1),
	}
	l.cut, l.sever = context.WithCancel(context.Background())
	boot, cancel := context.WithCancel(ctx)
	l.cancel = cancel
	b := backend.Boot{
		Context: boot, Config: t.wired(t.s.program, l), Replica: replica, Outside: t.world.Outside(),
		Remember: func(c state.Cache) {
			t.mu.Lock()
			defer t.mu.Unlock()
			l.caches = append(l.caches, c)
		},
	}
	go func() { l.done <- t.s.c.Boot(b) }()
	t.moved()
	return l
}

// tend starts again what was killed, and looks whether a Run has ended that was not to.
func (t *trial) tend(ctx context.Context) {
	for i, l := range t.lives {
		if l == nil {
			continue
		}
		if l.killed() {
			t.join(l)
			t.line("restart   " + l.client)
			t.lives[i] = t.boot(ctx, i)
			continue
		}
		select {
		case err := <-l.done:
			l.done <- err
			if !t.mutated(err) {
				t.find(report.Run, fmt.Sprintf("Run returned although its context had not ended: %v", err))
			}
		default:
		}
	}
}

// halt ends all replicas: with their network, or without.
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

// join waits until Run has returned.
func (t *trial) join(l *life) {
	timer := time.NewTimer(t.s.o.Timeout)
	defer timer.Stop()
	select {
	case err := <-l.done:
		t.mutated(err)
	case <-timer.C:
		t.find(report.Stop, fmt.Sprintf("Run did not return within %v after its context had ended: "+
			"it must join every goroutine that it starts", t.s.o.Timeout))
	}
	l.kill()
}
