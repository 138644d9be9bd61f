package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest/fakes"
)

// The code of docs/by-task.md that stands nowhere else.

// One Secret that all keys depend on is watched alone, not all Secrets of the
// cluster.
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

// Many copies are written ten at a time. One that is refused keeps no other
// from being written.
func Example_manyOutputs() {
	ctx := context.Background()
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-007", Name: "motd", UID: "2"}})
	greeting := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "motd", UID: "1f"}}
	copies := children.New(corev1.SchemeGroupVersion.WithKind("ConfigMap"), client.CoreV1().ConfigMaps,
		informer.For(client.CoreV1().ConfigMaps(""), nil), client.CoreV1().ConfigMaps,
		&children.Options{ByLabel: true, Parallel: 10})

	wanted := make([]children.Child[*corev1.ConfigMap], 100)
	for i := range wanted {
		wanted[i] = children.Child[*corev1.ConfigMap]{
			Namespace: fmt.Sprintf("tenant-%03d", i), Name: greeting.Name,
			Edit: func(m *corev1.ConfigMap) { m.Data = map[string]string{"text": "welcome"} },
		}
	}
	_, err := copies.Ensure(ctx, greeting, wanted...)
	written, _ := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "homeostat.dev/owner-uid=1f"})
	fmt.Println(len(written.Items), errors.Is(err, children.ErrForeign))
	// Output: 99 true
}

// A certificate is ordered once and looked at every ten seconds. It has the
// object's name outside, so that a restart does not order a second one.
func Example_waitOutside() {
	outside := map[string]int{} // how often each order was looked at
	order := func(_ context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		object, ok := r.Object()
		if !ok {
			return reconcile.Result{}, nil
		}
		name := "order-" + string(object.UID)
		looks, ordered := outside[name]
		outside[name] = looks + 1
		switch {
		case !ordered:
			fmt.Println("ordered")
		case looks < 3:
			fmt.Println("not issued yet")
		default:
			fmt.Println("issued")
			return reconcile.Result{}, nil
		}
		return reconcile.After(10 * time.Second), nil
	}
	cert := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "cert", UID: "1f"}}
	request := reconcile.Request[*corev1.ConfigMap]{Key: reconcile.Key{Namespace: "d", Name: "cert"}}
	for again := true; again; {
		result, _ := order(context.Background(), request.WithObject(cert))
		again = result == reconcile.After(10*time.Second)
	}
	// Output:
	// ordered
	// not issued yet
	// not issued yet
	// issued
}

// The selector of a Deployment cannot be changed: the child is deleted, and the
// next reconcile creates it.
func Example_recreate() {
	client := fake.NewClientset(exampleMap("site"))
	_ = fakes.Faithful(client) // objects get UIDs and resourceVersions
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	deployments := informer.For(client.AppsV1().Deployments(""), nil)
	set := children.New(corev1.SchemeGroupVersion.WithKind("ConfigMap"), client.CoreV1().ConfigMaps, deployments,
		client.AppsV1().Deployments, &children.Options{MaxRecreate: 1})
	app := "v1" // of the selector, in the program's first version
	run := func(ctx context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
		site, ok := r.Object()
		if !ok {
			return reconcile.Result{}, nil
		}
		_, err := set.Ensure(ctx, site, children.Child[*appsv1.Deployment]{Name: "web", Edit: func(d *appsv1.Deployment) {
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		}})
		switch {
		case patch.IsStale(err):
			fmt.Println("it was deleted, which is a trigger")
		case err == nil && app == "v2":
			stop()
		case err == nil:
			app = "v2"
			return reconcile.After(time.Millisecond), nil
		}
		return reconcile.Result{}, err
	}
	client.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		selector := field.Invalid(field.NewPath("spec", "selector"), app, "field is immutable")
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", field.ErrorList{selector})
	})
	c, err := reconcile.New("sites", informer.For(client.CoreV1().ConfigMaps(""), nil), reconcile.Func[*corev1.ConfigMap](run),
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(deployments)}})
	fmt.Println(errors.Join(err, c.Run(ctx)))
	web, _ := client.AppsV1().Deployments("shop").Get(context.Background(), "web", metav1.GetOptions{})
	fmt.Println(web.Spec.Selector.MatchLabels)
	// Output:
	// it was deleted, which is a trigger
	// <nil>
	// map[app:v2]
}

// The time of the last run is in the object, so that a restart neither loses
// nor repeats a run.
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

// A finalizer deletes one thing after the other: each step waits until the one
// before is not found.
func Example_inOrder() {
	ctx := context.Background()
	meta := metav1.ObjectMeta{Namespace: "d", Name: "shop"}
	client := fake.NewClientset(&appsv1.Deployment{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta})
	errWaiting := errors.New("waiting for the deletion of the Deployment")
	finalizer := patch.Finalizer[*corev1.ConfigMap, typedcorev1.ConfigMapInterface]{
		Name: "example.com/in-order", Client: client.CoreV1().ConfigMaps,
		Clean: func(ctx context.Context, shop *corev1.ConfigMap) error {
			d, err := client.AppsV1().Deployments(shop.Namespace).Get(ctx, shop.Name, metav1.GetOptions{})
			switch {
			case err == nil: // its deletion is a trigger: reconcile.Owned(deployments)
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
