package kubernetes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/actors"
)

// loop runs a controller until ctx ends.
type loop func(ctx context.Context)

// wired makes a program of controllers, as the controller manager wires them.
func wired(
	wire func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) ([]loop, error),
) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		ctx := env.Context()
		factory := informers.NewSharedInformerFactory(env.Client(), 0)
		loops, err := wire(ctx, env.Client(), factory)
		if err != nil {
			return err
		}
		factory.StartWithContext(ctx)
		var running sync.WaitGroup
		for _, l := range loops {
			running.Go(func() { l(ctx) })
		}
		running.Wait()
		factory.Shutdown()
		return nil
	}
}

// explored explores a case with a kubelet.
func explored(t *testing.T, c *reconciletest.Case) *reconciletest.Report {
	t.Helper()
	c.Actors = append(c.Actors, actors.Kubelet(nil))
	r := reconciletest.Search(t, c, &reconciletest.Options{Budget: 5 * time.Minute})
	t.Logf("%d calls and %d writes without a fault; %d of %d deviations\n%s", r.Calls, r.Writes, r.Runs, r.Planned, r.Failure)
	return r
}

var labels = map[string]string{"app": "web"}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
}

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "d", Name: "web"} }

func selector() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: labels} }
