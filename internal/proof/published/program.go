package published

import (
	"context"
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Loop runs a controller until ctx ends.
type Loop func(ctx context.Context)

// Wire makes controllers that share one client and one informer factory, as
// they do in the controller manager.
type Wire func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) ([]Loop, error)

// Program makes the controllers with w and runs them. It is for
// [reconciletest.Case.Run].
func (w Wire) Program(env *reconciletest.Env) error {
	ctx := env.Context()
	factory := informers.NewSharedInformerFactory(env.Client(), 0)
	loops, err := w(ctx, env.Client(), factory)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done()) // old versions of the factory have no other method
	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(func() { l(ctx) })
	}
	running.Wait()
	factory.Shutdown()
	return nil
}
