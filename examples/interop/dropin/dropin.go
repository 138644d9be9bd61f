// Package dropin makes a manager of controller-runtime whose cache uses the
// informers of Homeostat. The rest of the operator does not change.
package dropin

import (
	"sync"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat/homeostat/informer/clientgo"
	homeostat "github.com/homeostat/homeostat/metrics"
)

// NewManager returns a manager whose informers are made by package clientgo.
func NewManager(config *rest.Config, options manager.Options) (manager.Manager, error) {
	// region line
	options.Cache.NewInformer = clientgo.NewSharedIndexInformer
	// endregion
	return ctrl.NewManager(config, options)
}

// NewObservedManager returns a manager like [NewManager]. In addition, the
// process's metrics show the state of the manager's informers, and unchanged
// specs of built-in kinds are not decoded again (see [clientgo.ReuseSpecs]). If
// two running managers cache the same kind, the metrics of the second informer
// have a number in their label informer, for example "secrets-2".
func NewObservedManager(config *rest.Config, options manager.Options) (manager.Manager, error) {
	// region specs
	config = rest.CopyConfig(config)
	config.Wrap(clientgo.ReuseSpecs)
	// endregion
	options.Cache.NewInformer = informers.New
	if err := register(); err != nil {
		return nil, err
	}
	return ctrl.NewManager(config, options)
}

// region observed

// informers are the informers of all managers of this process. The managers
// share the registry of controller-runtime, which must not get the same metric
// from two collectors.
var informers clientgo.Informers

var register = sync.OnceValue(func() error {
	return metrics.Registry.Register(homeostat.Informers(informers.Status))
})

// endregion
