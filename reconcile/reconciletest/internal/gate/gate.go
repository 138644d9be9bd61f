// Package gate admits the workers of Homeostat's queues one at a time, when
// every other goroutine of the program is blocked, so that the result does not
// depend on which goroutine is faster.
package gate

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/homeostat/homeostat/internal/simhook"
)

// Gate decides when the workers of one run may take keys from their queues.
type Gate struct {
	// Wake is called when a worker begins to wait.
	Wake func()
	// Reads records the reads of reconciles in caches of references.
	Reads Reads

	mu      sync.Mutex // guards the fields below
	queues  int
	waiting []*worker
}

// worker is a goroutine that waits at the gate before it takes a key from a
// queue.
type worker struct {
	client, queue string
	number        int // the number of the queue, in the order in which the program made its queues
	enter         chan struct{}
}

// clientKey is the context key for the name of a worker's client.
type clientKey struct{}

// WithClient returns a context for the workers of a client. A worker without
// such a context passes the gate at once.
func WithClient(ctx context.Context, client string) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// Hooks returns the hooks for all queues and caches that the program makes
// during this run. They remove the jitter from back-offs.
func (g *Gate) Hooks() *simhook.Hooks {
	return &simhook.Hooks{Gate: g.entry, Jitter: func() float64 { return 0.5 }, Reads: &g.Reads}
}

// entry returns the function that a queue calls before it dispatches a key. The
// function blocks until the run admits the worker. A worker whose context has
// ended waits like any other, and notices the end when it is admitted. Workers
// that do not belong to a client of the run do not wait.
func (g *Gate) entry(queue string) func(context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues++
	number := g.queues
	return func(ctx context.Context) {
		if client, isProgram := ctx.Value(clientKey{}).(string); isProgram {
			g.wait(&worker{client: client, queue: queue, number: number, enter: make(chan struct{})})
		}
	}
}

// wait blocks a worker until the run lets it in.
func (g *Gate) wait(w *worker) {
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	g.Wake()
	<-w.enter
}

// Open admits one worker and returns the name of its queue. It returns false if
// no worker is waiting. The workers of one queue are interchangeable.
//
// The queue of a mapper has the name of its controller's queue with a suffix.
// Unless random is set, the worker of a mapper is admitted before the workers
// of the controller. The keys that the mapper finds are then in the queue when
// a reconcile begins.
func (g *Gate) Open(random *rand.Rand) (queue string, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return "", false
	}
	slices.SortStableFunc(g.waiting, func(a, b *worker) int {
		return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(b.queue, a.queue), cmp.Compare(a.number, b.number))
	})
	i := 0
	if random != nil {
		i = random.IntN(len(g.waiting))
	}
	queue = g.waiting[i].queue
	close(g.waiting[i].enter)
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return queue, true
}

// Maps reports whether the queue with the given name belongs to a mapper.
func Maps(queue string) bool { return strings.Contains(queue, "/") }
