package operator_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// telling counts the ConfigMaps that it sees, and records an Event for each.
func telling(env operator.Env) ([]*reconcile.Controller, error) {
	seen := prometheus.NewCounter(prometheus.CounterOpts{Name: "seen_total", Help: "What was seen."})
	env.Metrics.MustRegister(seen)
	tell := reconcile.Func[*corev1.ConfigMap](
		func(_ context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			if m, ok := r.Object(); ok {
				seen.Inc()
				env.Events.Eventf(m, nil, corev1.EventTypeNormal, "Seen", "See", "%s was seen", m.Name)
			}
			return reconcile.Result{}, nil
		})
	c, err := reconcile.New("telling", informer.For(env.Cluster.Client().CoreV1().ConfigMaps(""), nil), tell, env.Options())
	return []*reconcile.Controller{c}, err
}

func TestTheEnvironmentOfATestHasMetricsAndEvents(t *testing.T) {
	g := NewWithT(t)
	r := reconciletest.Search(t, &reconciletest.Case{
		Objects: []runtime.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"}}},
		Run: func(env *reconciletest.Env) error {
			of, err := operator.NewEnv(env.Context(), env.Config())
			if err != nil {
				return err
			}
			controllers, err := telling(of)
			if err != nil {
				return err
			}
			return reconcile.RunAll(env.Context(), controllers...)
		},
		Goal: func(w *reconciletest.World) error {
			all, err := reconciletest.List[eventsv1.Event](w, "events.events.k8s.io")
			if err == nil && (len(all) == 0 || all[0].Note != "a was seen" || all[0].Regarding.Name != "a") {
				err = fmt.Errorf("the Events are %v", all)
			}
			return err
		},
	}, &reconciletest.Options{Seeds: 5, KnownFindings: []string{"the program writes nothing"}})
	g.Expect(r.Failure).To(BeEmpty())
	g.Expect(r.Covered()).To(BeTrue())
}

func TestTheEnvironmentOfATestNeedsAConfig(t *testing.T) {
	_, err := operator.NewEnv(t.Context(), &rest.Config{Host: "://"})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("making the environment of a test: ")))
}
