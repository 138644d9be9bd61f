package ingress_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/ingress-per-service/internal/ingress"
	"github.com/homeostat/homeostat/examples/internal/stage"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 5 * time.Second

// A fault at every call and every event, and the same end.
func TestItSurvivesEveryFault(t *testing.T) {
	reconciletest.Explore(t, &reconciletest.Case{
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
