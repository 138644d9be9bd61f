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

// Gate is that of one run.
type Gate struct {
	// Wake is called when a worker waits.
	Wake func()
	// Reads hears what reconciles read.
	Reads Reads

	mu      sync.Mutex // guards the fields below
	queues  int
	waiting []*worker
}

// worker is one that wants a key.
type worker struct {
	client, queue string
	number        int // of the queue
	enter         chan struct{}
}

// clientKey is the context key of the name of the client that a worker belongs to.
type clientKey struct{}

// With returns a context for the workers of a client. A worker without it does
// not wait.
func With(ctx context.Context, client string) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// Hooks returns the hooks of all queues and caches that the program makes
// during this run. Back-off has no jitter.
func (g *Gate) Hooks() *simhook.Hooks {
	return &simhook.Hooks{Gate: g.of, Jitter: func() float64 { return 0.5 }, Reads: &g.Reads}
}

// of returns the function that a queue calls before it dispatches a key. A
// worker whose context has ended waits as well, and then sees it.
func (g *Gate) of(queue string) func(context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues++
	number := g.queues
	return func(ctx context.Context) {
		if client, ours := ctx.Value(clientKey{}).(string); ours {
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

// Open admits one worker, and returns the name of its queue, or false if none
// waits. The workers of one queue are interchangeable. A mapper's queue is
// named after its controller's, with a suffix. It goes first, unless random
// orders them, so that the keys it finds are known when the reconcile begins.
func (g *Gate) Open(random *rand.Rand) (queue string, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return "", false
	}
	slices.SortStableFunc(g.waiting, func(a, b *worker) int {
		return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(b.queue, a.queue), cmp.Compare(a.number, b.number))
	})
	at := 0
	if random != nil {
		at = random.IntN(len(g.waiting))
	}
	queue = g.waiting[at].queue
	close(g.waiting[at].enter)
	g.waiting = slices.Delete(g.waiting, at, at+1)
	return queue, true
}

// Maps reports whether a queue of that name is a mapper's.
func Maps(queue string) bool { return strings.Contains(queue, "/") }
