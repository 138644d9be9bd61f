package ingress_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/ingress-per-service/internal/ingress"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 5 * time.Second

// A fault at every call and every event, and the same end.
func TestItSurvivesEveryFault(t *testing.T) {
	reconciletest.Explore(t, &reconciletest.Case{
		Roles:    []string{"../../deploy/rbac.yaml"},
		Unneeded: []string{"patch ingresses.networking.k8s.io"}, // where a Service changes, or another client edits
		Run: func(env *reconciletest.Env) error {
			c, err := ingress.New(stage.Client(env.Config()), &events.FakeRecorder{}, nil)
			if err != nil {
				return err
			}
			return c.Run(env.Context())
		},
		Workload: []reconciletest.Step{
			reconciletest.Create(service("a")),
			reconciletest.Create(service("b")),
			reconciletest.Patch("services", "d/b", `{"metadata":{"labels":{"`+ingress.ExposeKey+`":null}}}`),
			reconciletest.Create(foreign("c")),
			reconciletest.Create(service("c")),
			reconciletest.Delete("services", "d/a"),
			reconciletest.Create(service("e")),
		},
		Goal: func(w *reconciletest.World) error {
			all, err := reconciletest.List[networkingv1.Ingress](w, "ingresses")
			if err != nil {
				return err
			}
			var names []string
			for _, i := range all {
				names = append(names, i.Name)
			}
			slices.Sort(names)
			if !slices.Equal(names, []string{"c", "e"}) {
				return fmt.Errorf("the Ingresses are %v, want c, which is not ours, and e", names)
			}
			return nil
		},
	}, &reconciletest.Options{Budget: exploration})
}

// mass is enough Services to have their deletions confirmed by one request for
// all.
const mass = 12

// Services are deleted at once, and half of them are there again. No Ingress of
// one that is there is deleted once both are known to have been there, whatever
// the caches show.
func TestAMassDeletionSparesIngressesOfRecreatedServices(t *testing.T) {
	each := func(do func(ctx context.Context, services typedcorev1.ServiceInterface, i int) error) func(
		context.Context, *reconciletest.World) error {
		return func(ctx context.Context, w *reconciletest.World) error {
			var errs []error
			for i := range mass {
				errs = append(errs, do(ctx, w.Client().CoreV1().Services("d"), i))
			}
			return errors.Join(errs...)
		}
	}
	name := func(i int) string { return fmt.Sprintf("s-%02d", i) }
	create := func(ctx context.Context, services typedcorev1.ServiceInterface, i int) error {
		s := service(name(i))
		s.UID, s.ResourceVersion, s.Spec.ClusterIP = "", "", ""
		_, err := services.Create(ctx, s, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	remove := func(ctx context.Context, services typedcorev1.ServiceInterface, i int) error {
		err := services.Delete(ctx, name(i), metav1.DeleteOptions{})
		if err == nil && i%2 == 0 {
			err = create(ctx, services, i)
		}
		return err
	}
	served := map[types.UID]bool{} // Services beside which there was an Ingress
	reconciletest.Explore(t, &reconciletest.Case{
		Objects: []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}},
		Run: func(env *reconciletest.Env) error {
			// All go at once while the program is down, which the safety limit
			// of sweeps is there to stop.
			unlimited := &ingress.Options{Sweep: names.Options{MaxShare: 1}}
			c, err := ingress.New(stage.Client(env.Config()), &events.FakeRecorder{}, unlimited)
			if err != nil {
				return err
			}
			return c.Run(env.Context())
		},
		Outside: func() any { clear(served); return nil },
		Workload: []reconciletest.Step{
			{Name: "many are created", Do: each(create)},
			{Name: "all are deleted, and half of them recreated", Do: each(remove)},
			{Name: "all are deleted", Do: each(func(ctx context.Context, services typedcorev1.ServiceInterface, i int) error {
				err := services.Delete(ctx, name(i), metav1.DeleteOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			})},
		},
		Always: func(w *reconciletest.World) error {
			services, err := reconciletest.List[corev1.Service](w, "services")
			if err != nil {
				return err
			}
			ingresses, err := reconciletest.List[networkingv1.Ingress](w, "ingresses")
			if err != nil {
				return err
			}
			for _, s := range services {
				has := slices.ContainsFunc(ingresses, func(i networkingv1.Ingress) bool { return i.Name == s.Name })
				if served[s.UID] && !has {
					return fmt.Errorf("the Ingress of Service %s was deleted, which is there", s.Name)
				}
				served[s.UID] = served[s.UID] || has
			}
			return nil
		},
		Goal: func(w *reconciletest.World) error {
			all, err := reconciletest.List[networkingv1.Ingress](w, "ingresses")
			if err == nil && len(all) > 0 {
				err = fmt.Errorf("%d Ingresses of deleted Services are left", len(all))
			}
			return err
		},
	}, &reconciletest.Options{Budget: exploration})
}
