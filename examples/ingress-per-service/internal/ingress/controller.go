package ingress

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// New returns the controller for all namespaces. The caller must run the
// controller.
func New(client kubernetes.Interface, recorder events.EventRecorder, o *Options) (*reconcile.Controller, error) {
	options, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("making controller %q: %w", Name, err)
	}
	services := informer.For(client.CoreV1().Services(""), nil)
	ingresses := informer.For(client.NetworkingV1().Ingresses(""), nil)
	r := &reconciler{
		client: client, services: services, ingresses: ingresses, recorder: recorder, options: options,
		warned: map[reconcile.Key]types.UID{},
	}
	return reconcile.New(Name, services, r, &reconcile.Options{
		Triggers: []reconcile.Trigger{reconcile.Mapped(ingresses, serviceKey(services))},
		Known:    names.Objects(ingresses, serviceOf),
		Sweep:    &options.Sweep,
		Events:   recorder,
		Shards:   options.Shards,
	})
}

// serviceKey returns a function that maps a changed Ingress to the key of its
// Service. The function returns no key if the cache does not have the Service:
// Ingresses without a Service are left to the sweeps, which have a safety
// limit.
func serviceKey(
	services *informer.Informer[*corev1.Service],
) func(_ context.Context, old, new *networkingv1.Ingress) ([]reconcile.Key, error) {
	return func(_ context.Context, old, new *networkingv1.Ingress) ([]reconcile.Key, error) {
		if new == nil {
			new = old
		}
		key := reconcile.Key{Namespace: new.Namespace, Name: new.Name}
		if _, ok := services.Get(key); !ok {
			return nil, nil
		}
		return []reconcile.Key{key}, nil
	}
}
