package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// The code of docs/by-task.md that stands nowhere else.

// One Secret that all keys depend on is watched alone, not all Secrets of the cluster.
func Example_secretByName() {
	client := fake.NewClientset()
	jobs := informer.For(client.CoreV1().ConfigMaps(""), nil)
	settings := informer.ForNamespaces(client.CoreV1().Secrets, &informer.Options{
		Namespaces: []string{"platform"}, FieldSelector: "metadata.name=settings",
	})
	everyJob := func(context.Context, *corev1.Secret, *corev1.Secret) (keys []reconcile.Key, _ error) {
		for job := range jobs.Snapshot().All() {
			keys = append(keys, reconcile.Key{Namespace: job.Namespace, Name: job.Name})
		}
		return keys, nil
	}
	run := reconcile.Func[*corev1.ConfigMap](
		func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			_, ok := settings.Get(reconcile.Key{Namespace: "platform", Name: "settings"})
			if !ok {
				return reconcile.Result{}, nil // its creation is a trigger
			}
			return reconcile.Result{}, nil
		})
	_, err := reconcile.New("jobs", jobs, run, &reconcile.Options{
		Triggers: []reconcile.Trigger{reconcile.Mapped(settings, everyJob)},
	})
	fmt.Println(err)
	// Output: <nil>
}

// The time of the last run is in the object, so that a restart neither loses nor repeats a run.
func Example_schedule() {
	const every = time.Hour
	due := func(job *corev1.ConfigMap, now time.Time) (bool, reconcile.Result) {
		last, err := time.Parse(time.RFC3339, job.Annotations["example.com/last-run"])
		if err == nil && now.Before(last.Add(every)) {
			return false, reconcile.After(last.Add(every).Sub(now))
		}
		return true, reconcile.Result{} // run it, note the time, and return After(every)
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	job := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"example.com/last-run": noon.Format(time.RFC3339),
	}}}
	for _, now := range []time.Time{noon.Add(time.Minute), noon.Add(every)} {
		run, again := due(job, now)
		fmt.Println(run, again == reconcile.After(59*time.Minute))
	}
	// Output:
	// false true
	// true false
}

// A finalizer deletes one thing after the other: each step waits until the one before is not found.
func Example_inOrder() {
	ctx := context.Background()
	meta := metav1.ObjectMeta{Namespace: "d", Name: "shop"}
	client := fake.NewClientset(&appsv1.Deployment{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta})
	errWaiting := errors.New("waiting for the end of the Deployment")
	finalizer := patch.Finalizer[*corev1.ConfigMap, typedcorev1.ConfigMapInterface]{
		Name: "example.com/in-order", Client: client.CoreV1().ConfigMaps,
		Clean: func(ctx context.Context, shop *corev1.ConfigMap) error {
			d, err := client.AppsV1().Deployments(shop.Namespace).Get(ctx, shop.Name, metav1.GetOptions{})
			switch {
			case err == nil: // its end is a trigger: reconcile.Owned(deployments)
				return errors.Join(errWaiting, patch.Delete(ctx, client.AppsV1().Deployments, d, nil))
			case !names.IsNotFound(err, appsv1.Resource("deployments"), shop.Name):
				return err // what is not known is not deleted
			}
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: shop.Namespace, Name: shop.Name}}
			return patch.Delete(ctx, client.CoreV1().Services, service, nil)
		},
	}
	now := metav1.Now()
	shop := &corev1.ConfigMap{ObjectMeta: meta}
	shop.DeletionTimestamp, shop.Finalizers = &now, []string{finalizer.Name}
	for range 2 {
		_, _, err := finalizer.Guard(ctx, shop)
		services, _ := client.CoreV1().Services("d").List(ctx, metav1.ListOptions{})
		fmt.Println(errors.Is(err, errWaiting), len(services.Items))
	}
	// Output:
	// true 1
	// false 0
}

// Several kinds have one function, and a controller each.
func Example_severalKinds() {
	client := fake.NewClientset()
	deployments := informer.For(client.AppsV1().Deployments(""), nil)
	sets := informer.For(client.AppsV1().StatefulSets(""), nil)
	a, err := reconcile.New("deployments", deployments, audit[*appsv1.Deployment](), nil)
	b, err2 := reconcile.New("statefulsets", sets, audit[*appsv1.StatefulSet](), nil)
	fmt.Println(errors.Join(err, err2), a != nil, b != nil) // reconcile.RunAll(ctx, a, b) runs both
	// Output: <nil> true true
}

// audit looks at objects of any kind.
func audit[T informer.Object]() reconcile.Func[T] {
	return func(_ context.Context, r reconcile.Request[T]) (reconcile.Result, error) {
		if object, ok := r.Object(); ok && object.GetLabels()["owner"] == "" {
			fmt.Println(r.Key, "has no owner")
		}
		return reconcile.Result{}, nil
	}
}
