// Package dropin makes a manager of controller-runtime whose cache uses the
// informers of Homeostat. The rest of the operator does not change.
package dropin

import (
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
// specs of built-in kinds are not decoded again (see [clientgo.ReuseSpecs]).
// Call it once in a process. If two running managers cache the same kind, the
// metrics of their informers have the same labels, and every scrape fails.
func NewObservedManager(config *rest.Config, options manager.Options) (manager.Manager, error) {
	// region specs
	config = rest.CopyConfig(config)
	config.Wrap(clientgo.ReuseSpecs)
	// endregion
	// region observed
	var informers clientgo.Informers
	options.Cache.NewInformer = informers.New
	if err := metrics.Registry.Register(homeostat.Informers(informers.Status)); err != nil {
		return nil, err
	}
	// endregion
	return ctrl.NewManager(config, options)
}
