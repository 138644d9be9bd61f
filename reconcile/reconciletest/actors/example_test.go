package actors_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/actors"
)

// deploySites gives every ConfigMap a Deployment, as serve wants it.
func deploySites(
	ctx context.Context, client kubernetes.Interface, serve func(site *corev1.ConfigMap, d *appsv1.Deployment),
) error {
	sites := informer.For(client.CoreV1().ConfigMaps("shop"), nil)
	deployments := informer.For(client.AppsV1().Deployments("shop"), nil)
	set := children.New(corev1.SchemeGroupVersion.WithKind("ConfigMap"), client.CoreV1().ConfigMaps,
		deployments, client.AppsV1().Deployments, nil)
	keep := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		site, ok := r.Object()
		if !ok {
			return reconcile.Result{}, nil
		}
		_, err := set.Ensure(ctx, site, children.Child[*appsv1.Deployment]{
			Name: site.Name, Edit: func(d *appsv1.Deployment) { serve(site, d) },
		})
		return reconcile.Result{}, err
	}
	c, err := reconcile.New("sites", sites, reconcile.Func[*corev1.ConfigMap](keep),
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(deployments)}})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// serve decides about the fields of a Deployment that are the program's.
func serve(_ *corev1.ConfigMap, d *appsv1.Deployment) {
	labels := map[string]string{"app": d.Name}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
}

// With kubelets and the controllers of Deployments in its world, a program can
// be tested by its Pods, as its users see them.
func TestSitesAreServed(t *testing.T) {
	reconciletest.Explore(t, &reconciletest.Case{
		Objects: []runtime.Object{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "home"}},
		},
		Run:    func(env *reconciletest.Env) error { return deploySites(env.Context(), env.Client(), serve) },
		Actors: []reconciletest.Actor{actors.Deployments(), actors.Kubelet(nil)},
		Goal: func(w *reconciletest.World) error {
			pods, err := reconciletest.List[corev1.Pod](w, "pods")
			if err == nil && (len(pods) != 1 || pods[0].Status.Phase != corev1.PodRunning) {
				err = fmt.Errorf("%d Pods, of which the first must be the only one and run", len(pods))
			}
			return err
		},
	}, &reconciletest.Options{Budget: 2 * time.Second})
}

// A rollout for each change of the site: the hash of the template, and so the
// names of ReplicaSets and Pods, differ between runs.
func TestWhatFollowsFromAVersionInATemplateIsDeclared(t *testing.T) {
	versioned := func(site *corev1.ConfigMap, d *appsv1.Deployment) {
		serve(site, d)
		metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, "config-version", site.ResourceVersion)
	}
	for oracle, c := range map[string]struct {
		ignore []string
		budget time.Duration // one that is found ends when it is
	}{
		"state": {nil, time.Minute},
		"":      {[]string{"replicasets.apps *", "pods *", "deployments.apps status.conditions[*].message"}, 2 * time.Second},
	} {
		r := reconciletest.Search(t, &reconciletest.Case{
			Objects: []runtime.Object{
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "home"}},
			},
			Run:      func(env *reconciletest.Env) error { return deploySites(env.Context(), env.Client(), versioned) },
			Workload: []reconciletest.Step{reconciletest.Patch("configmaps", "shop/home", `{"data":{"x":"1"}}`)},
			Actors:   []reconciletest.Actor{actors.Deployments(), actors.Kubelet(nil)},
			Ignore:   c.ignore,
		}, &reconciletest.Options{Budget: c.budget})
		if r.Oracle != oracle {
			t.Errorf("Ignore %q: oracle %q, want %q: %s", c.ignore, r.Oracle, oracle, r.Failure)
		}
	}
}
