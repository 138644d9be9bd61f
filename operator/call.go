package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/homeostat/homeostat/internal/guard"
)

// How long the functions of a program may continue after their context has
// ended. Setup has nothing to finish. Beside may let requests finish.
const (
	setupGrace  = 5 * time.Second
	besideGrace = 30 * time.Second
)

// call calls f, the function of the program with this name, and returns its
// error. It also returns an error if f panics, if it ends its goroutine, or if
// it has not returned within grace after the end of ctx. In the last case f
// continues, so the caller must not use what f sets.
func call(ctx context.Context, name string, grace time.Duration, f func() error) error {
	ended := make(chan error, 1)
	go func() {
		var err error
		if failure := guard.Call(func() { err = f() }); failure != nil {
			err = fmt.Errorf("calling %s: %w", name, failure)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return fmt.Errorf("stopping: %s has not returned, %v after its context ended", name, grace)
	}
}
