// Package memcached is an operator that follows the tutorial of operator-sdk.
// It consists of the tutorial's api and internal/controller, and of the code of
// its cmd/main.go.
package memcached

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	cachev1alpha1 "github.com/homeostat/homeostat/examples/anyprogram/memcached/api/v1alpha1"
	"github.com/homeostat/homeostat/examples/anyprogram/memcached/internal/controller"
)

// Start runs the operator until ctx ends. The operator's main calls it after it
// has read the flags into o.
func Start(ctx context.Context, config *rest.Config, o ctrl.Options) error {
	o.Scheme = runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cachev1alpha1.AddToScheme} {
		if err := add(o.Scheme); err != nil {
			return fmt.Errorf("registering kinds: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	reconciler := &controller.MemcachedReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("creating the controller: %w", err)
	}
	return mgr.Start(ctx)
}
