package cli

import (
	"context"
	"errors"

	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

// Serve runs c until ctx ends, and meanwhile answers /livez, /readyz, /metrics and
// /debug/homeostat at address, unless that is empty.
func Serve(ctx context.Context, address string, c *reconcile.Controller) error {
	if address == "" {
		return c.Run(ctx)
	}
	h, err := status.New(&status.Options{Controllers: []*reconcile.Controller{c}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		defer stop() // Nobody must believe in a program that cannot be asked.
		served <- status.Serve(ctx, address, h)
	}()
	err = c.Run(ctx)
	stop()
	return errors.Join(err, <-served)
}
