package reconciletest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/homeostat/homeostat/internal/simhook"
)

// gate lets the workers of Homeostat's queues in, one at a time and when all else is still: then what waits for them
// does not depend on which goroutine was faster. Whoever was told to stop comes in, too, and sees that it was.
type gate struct {
	wake func()

	mu      sync.Mutex // guards what follows
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

// hooks are those of all queues that the program makes during this run.
func (g *gate) hooks() *simhook.Hooks {
	return &simhook.Hooks{Gate: g.of, Jitter: func() float64 { return 0.5 }}
}

// of is what a queue calls before it hands out a key.
func (g *gate) of(queue string) func(context.Context) {
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

func (g *gate) wait(w *worker) {
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	g.wake()
	<-w.enter
}

// open lets one worker in; false: nobody waits. Those of one queue are all alike. A mapper's queue is named after its
// controller's and something more: it goes first, unless the order is one of chance, so that what it finds out is known
// when the turn begins.
func (g *gate) open(random *rand.Rand) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return false
	}
	slices.SortStableFunc(g.waiting, func(a, b *worker) int {
		return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(b.queue, a.queue), cmp.Compare(a.number, b.number))
	})
	at := 0
	if random != nil {
		at = random.IntN(len(g.waiting))
	}
	close(g.waiting[at].enter)
	g.waiting = slices.Delete(g.waiting, at, at+1)
	return true
}
