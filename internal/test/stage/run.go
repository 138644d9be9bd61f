package stage

import (
	"context"
	"sync"

	"github.com/homeostat/homeostat/internal/test/wiretap"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// A Maker makes the controller under test.
type Maker func(env operator.Env) (*reconcile.Controller, error)

// A Run is a controller that runs until it is stopped.
type Run struct {
	*reconcile.Controller
	// Tap records the controller's requests.
	Tap  *wiretap.Tap
	stop func() error
}

func start(ctx context.Context, c *reconcile.Controller, tap *wiretap.Tap, ended func()) *Run {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() { result <- c.Run(ctx) }()
	return &Run{Controller: c, Tap: tap, stop: sync.OnceValue(func() error {
		cancel()
		defer ended()
		return <-result
	})}
}

// Stop ends the controller and returns the result of its Run. Later calls
// return the same result.
func (r *Run) Stop() error { return r.stop() }

// Idle reports whether the controller is running and has no work: no key is
// being reconciled or is waiting.
func (r *Run) Idle() bool {
	stats := r.QueueStats()
	waiting := stats.Held + stats.Delayed
	for _, lane := range stats.Lanes {
		waiting += lane.Depth
	}
	return r.Phase() == inspect.Working && waiting == 0
}
