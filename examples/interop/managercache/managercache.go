// Package managercache moves one controller of an operator to Homeostat. It
// reads the manager's cache, so that no kind is watched twice, and runs under
// the manager's election.
package managercache

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// Add adds the controller to a manager. Call it before mgr.Start.
func Add(ctx context.Context, mgr manager.Manager) error {
	c, err := cluster.New(mgr.GetConfig(), nil)
	if err != nil {
		return err
	}
	// region cache
	maps, err := informerOf[*corev1.ConfigMap](ctx, mgr, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	controller, err := reconcile.New("labels", maps, labelling(c), nil)
	// endregion
	if err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(controller.Run)) // while the manager leads
}

// informerOf returns an informer of the objects in the manager's cache. It
// returns an error if the cache is limited to several namespaces. Such a cache
// has one informer for each namespace, and no single informer that could be
// wrapped.
func informerOf[T informer.Object](
	ctx context.Context, mgr manager.Manager, example client.Object,
) (*informer.Informer[T], error) {
	cached, err := mgr.GetCache().GetInformer(ctx, example, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	shared, ok := cached.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("sharing the manager's cache of %T: its informer is a %T, not a SharedIndexInformer",
			example, cached)
	}
	return clientgo.Wrap[T](shared, nil), nil
}

func labelling(c *cluster.Cluster) reconcile.Reconciler[*corev1.ConfigMap] {
	maps := c.Client().CoreV1().ConfigMaps
	return reconcile.Func[*corev1.ConfigMap](
		func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			m, ok := r.Object()
			if !ok || m.Data["text"] == "" {
				return reconcile.Result{}, nil
			}
			_, err := patch.Merge(ctx, maps, m, nil, func(m *corev1.ConfigMap) {
				metav1.SetMetaDataLabel(&m.ObjectMeta, "example.com/has-text", "true")
			})
			return reconcile.Result{}, err
		})
}
