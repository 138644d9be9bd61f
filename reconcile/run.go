package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/homeostat/homeostat/informer"
)

// Run makes a controller with the default options and runs it until ctx ends:
// [New] and [Controller.Run] in one line.
func Run[T informer.Object](ctx context.Context, name string, in *informer.Informer[T], r Reconciler[T]) error {
	c, err := New(name, in, r, nil)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// RunAll runs controllers side by side until ctx ends or one of them fails,
// which stops the others. An informer that several of them use is started
// once and stopped after the last.
//
// Errors: a nil controller, or a name that two share, before anything starts; otherwise
// those of each [Controller.Run], joined.
func RunAll(ctx context.Context, controllers ...*Controller) error {
	names := map[string]bool{}
	for i, c := range controllers {
		if c == nil {
			return fmt.Errorf("running controllers: controllers[%d] is nil: New has returned an error", i)
		}
		if names[c.name] {
			return fmt.Errorf("running controllers: two are named %q: logs, metrics and field manager would mix", c.name)
		}
		names[c.name] = true
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	faults := make([]error, len(controllers))
	for i, c := range controllers {
		running.Go(func() {
			if faults[i] = c.Run(ctx); faults[i] != nil {
				stop()
			}
		})
	}
	running.Wait()
	return errors.Join(faults...)
}
