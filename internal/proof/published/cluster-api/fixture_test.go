package clusterapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat/homeostat/internal/proof/published/machines"
	"github.com/homeostat/homeostat/internal/proof/published/results"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// setup is how the main of Cluster API sets a controller up.
type setup = func(ctx context.Context, mgr ctrl.Manager, o controller.Options) error

func deployments(ctx context.Context, mgr ctrl.Manager, o controller.Options) error {
	return (&controllers.MachineDeploymentReconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).SetupWithManager(ctx, mgr, o)
}

func machineSets(ctx context.Context, mgr ctrl.Manager, o controller.Options) error {
	r := &controllers.MachineSetReconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), ClusterCache: unreachable{}}
	return r.SetupWithManager(ctx, mgr, o)
}

// unreachable is a cache of clusters that are never connected: no Machine has a
// Node.
type unreachable struct{ clustercache.ClusterCache }

func (unreachable) GetClusterSource(
	string, func(context.Context, client.Object) []ctrl.Request, ...clustercache.GetClusterSourceOption,
) source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
}

func sets(ctx context.Context, mgr ctrl.Manager, o controller.Options) error {
	return (&controllers.MachineSetTopologyReconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).SetupWithManager(ctx, mgr, o)
}

// running is a program of one controller.
func running(s setup) func(env *reconciletest.Env) error {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // events that are no longer written at the end
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(clusterv1.AddToScheme(scheme))
	return func(env *reconciletest.Env) error {
		mgr, err := ctrl.NewManager(env.Config(), ctrl.Options{
			Scheme:  scheme,
			Logger:  logr.FromContextOrDiscard(env.Context()),
			Metrics: server.Options{BindAddress: "0"},
			Cache:   cache.Options{SyncPeriod: new(10 * time.Minute)}, // the default of its main
			Controller: config.Controller{
				SkipNameValidation: new(true), UsePriorityQueue: new(feature.Gates.Enabled(feature.PriorityQueue)),
			},
			Client: client.Options{Cache: &client.CacheOptions{
				DisableFor: []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}}, Unstructured: true,
			}},
		})
		if err != nil {
			return err
		}
		if err := s(env.Context(), mgr, controller.Options{MaxConcurrentReconciles: 1}); err != nil {
			return err
		}
		return mgr.Start(env.Context())
	}
}

// explored explores a case. known are the findings to leave out.
func explored(t *testing.T, c *reconciletest.Case, known ...string) *reconciletest.Report {
	t.Helper()
	return results.Search(t, (*controllers.MachineDeploymentReconciler).SetupWithManager, c, machines.Options(known...))
}
