// Package sharedinformer adds a controller of Homeostat to a program that
// already uses client-go's shared informers. The controller reads the cache of
// the program's informer, so there is only one watch.
package sharedinformer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// exposed is the annotation on Services that can be reached from outside.
const exposed = "example.com/exposed"

// Run runs an existing program whose handler counts Services, together with the
// new controller. Both use the same shared informer.
func Run(ctx context.Context, client kubernetes.Interface, count func()) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services().Informer()
	if _, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { count() }}); err != nil {
		return err
	}
	controller, err := newController(client, services)
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	return controller.Run(ctx)
}

// newController returns a controller. Its cache is services, an informer that
// exists already. The factory of that informer starts it, and other code may
// use it, too.
func newController(client kubernetes.Interface, services cache.SharedIndexInformer) (*reconcile.Controller, error) {
	reconciler := reconcile.Func[*corev1.Service](
		func(ctx context.Context, r reconcile.Request[*corev1.Service]) (reconcile.Result, error) {
			service, ok := r.Object()
			if !ok {
				return reconcile.Result{}, nil
			}
			_, err := patch.Merge(ctx, client.CoreV1().Services, service, nil, func(edit *corev1.Service) {
				if edit.Spec.Type == corev1.ServiceTypeLoadBalancer {
					metav1.SetMetaDataAnnotation(&edit.ObjectMeta, exposed, "true")
				} else {
					delete(edit.Annotations, exposed)
				}
			})
			return reconcile.Result{}, err
		})
	return reconcile.New("exposed", clientgo.Wrap[*corev1.Service](services, nil), reconciler, nil)
}
