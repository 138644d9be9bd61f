// Package undermanager runs a controller of Homeostat in a manager of
// controller-runtime, next to the manager's existing reconcilers. The manager's
// probes and metrics include the controller.
package undermanager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
	"github.com/homeostat/homeostat/status"
)

// Add adds the controller to a manager. Call it before mgr.Start.
func Add(ctx context.Context, mgr manager.Manager, namespace, identity string) error {
	// The SDK needs only the config of the manager.
	unfenced, err := cluster.New(mgr.GetConfig(), nil)
	if err != nil {
		return err
	}
	if err := operator.CheckPermissions(ctx, unfenced, time.Minute, "list,watch,patch configmaps"); err != nil {
		return err
	}
	elector, err := leader.New(leader.Lease{
		Client: unfenced.Client().CoordinationV1(), Namespace: namespace, Name: "labels", Identity: identity,
	}, nil)
	if err != nil {
		return err
	}
	fenced, err := cluster.New(elector.Fence(mgr.GetConfig()), nil)
	if err != nil {
		return err
	}
	controller, err := newController(fenced, elector)
	if err != nil {
		return err
	}
	page, err := status.New(&status.Options{
		Controllers: []*reconcile.Controller{controller}, Authorize: operator.Authorize(unfenced),
	})
	if err != nil {
		return err
	}
	return errors.Join(
		mgr.Add(runnable{controller}),
		// The paths are /homeostat/debug/homeostat and /homeostat/metrics.
		// Prometheus needs a scrape config for the latter.
		mgr.AddMetricsServerExtraHandler("/homeostat/", http.StripPrefix("/homeostat", page)),
		mgr.AddHealthzCheck("labels", func(*http.Request) error { return controller.Healthy() }),
		mgr.AddReadyzCheck("labels", func(*http.Request) error { return ready(controller) }))
}

// runnable lets the manager run the controller in every replica. The controller
// has its own leader election.
type runnable struct{ controller *reconcile.Controller }

func (r runnable) Start(ctx context.Context) error { return r.controller.Run(ctx) }

// NeedLeaderElection returns false, so that the manager starts the controller
// in every replica. Without this method, the manager would run it only in the
// replica that the manager itself has elected as the leader.
func (runnable) NeedLeaderElection() bool { return false }

// ready returns an error unless the controller is ready. For a controller that
// is not optional, it applies the same rules as /readyz of package status.
func ready(c *reconcile.Controller) error {
	if phase := c.Phase(); phase != inspect.Working && phase != inspect.Standby {
		return fmt.Errorf("the controller is %s", phase)
	}
	return errors.Join(c.LeaderReady(), c.Refused())
}

func newController(c *cluster.Cluster, elector *leader.Elector) (*reconcile.Controller, error) {
	maps := c.Client().CoreV1().ConfigMaps
	return reconcile.New("labels", informer.For(maps(""), nil), reconcile.Func[*corev1.ConfigMap](
		func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			m, ok := r.Object()
			if !ok || m.Data["text"] == "" {
				return reconcile.Result{}, nil
			}
			_, err := patch.Merge(ctx, maps, m, nil, func(m *corev1.ConfigMap) {
				metav1.SetMetaDataLabel(&m.ObjectMeta, "example.com/has-text", "true")
			})
			return reconcile.Result{}, err
		}), &reconcile.Options{Leader: elector})
}
