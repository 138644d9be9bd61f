package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/controllerruntime"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/metrics"
)

// exampleServer stands for a cluster with some Secrets.
func exampleServer(ctx context.Context) (*rest.Config, manager.Options) {
	sim, err := apisim.New(nil)
	if err != nil {
		panic(err)
	}
	secrets := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().Secrets("shop")
	for _, name := range []string{"password", "somebody-elses"} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"text": []byte("xyzzy")}}
		if _, err := secrets.Create(ctx, s, metav1.CreateOptions{}); err != nil {
			panic(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return sim.Config("operator"), manager.Options{
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        metricsserver.Options{BindAddress: "0"},
	}
}

// A manager whose reconcilers read one Secret: only that one is cached.
func ExampleNewCache() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config, options := exampleServer(ctx)
	// region line
	options.NewCache = controllerruntime.NewCache(&controllerruntime.Options{
		OnDemand: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
	})
	// endregion
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	mgr.GetCache().WaitForCacheSync(ctx)

	var password corev1.Secret
	err = mgr.GetClient().Get(ctx, client.ObjectKey{Namespace: "shop", Name: "password"}, &password)
	fmt.Println(string(password.Data["text"]), err)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// xyzzy <nil>
	// <nil>
}

// A reconciler that finds its own writes in the manager's cache.
func ExampleSeeOwnWrites() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config, options := exampleServer(ctx)
	// region ownwrites
	mgr, err := ctrl.NewManager(controllerruntime.ObserveWrites(config), options)
	if err != nil {
		fmt.Println(err)
		return
	}
	reconciler := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "made"}}
		return reconcile.Result{}, mgr.GetClient().Create(ctx, s)
	})
	r, err := controllerruntime.SeeOwnWrites(ctx, mgr, reconciler, &corev1.Secret{})
	// endregion
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	mgr.GetCache().WaitForCacheSync(ctx)
	_, err = r.Reconcile(ctx, reconcile.Request{}) // what a controller calls
	fmt.Println(err)
	fmt.Println(mgr.GetClient().Get(ctx, client.ObjectKey{Namespace: "shop", Name: "made"}, &corev1.Secret{}))
	cancel()
	fmt.Println(<-ended)
	// Output:
	// <nil>
	// <nil>
	// <nil>
}

// A manager with a fenced election.
func ExampleNewManager() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config, options := exampleServer(ctx)
	options.LeaderElectionNamespace = "shop" // only outside of a cluster
	// region lead
	options.LeaderElection, options.LeaderElectionID = true, "shop-operator" // as before
	options.NewCache = controllerruntime.NewCache(nil)
	mgr, err := controllerruntime.NewManager(config, options)
	// endregion
	if err != nil {
		fmt.Println(err)
		return
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "made"}}
	fmt.Println(errors.Is(mgr.GetClient().Create(ctx, s), leader.ErrFenced))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	<-mgr.Elected()
	fmt.Println(mgr.GetClient().Create(ctx, s))
	cancel()
	fmt.Println(<-ended)
	// Output:
	// true
	// <nil>
	// <nil>
}

// The config of a manager whose reconcilers see their own writes.
func ExampleObserveWrites() {
	config := &rest.Config{Host: "https://10.0.0.1"}
	observed := controllerruntime.ObserveWrites(config)
	fmt.Println(observed.Host, observed.WrapTransport != nil, config.WrapTransport != nil)
	// Output: https://10.0.0.1 true false
}

// A manager with a status page.
func ExampleShow() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config, options := exampleServer(ctx)
	options.NewCache = controllerruntime.NewCache(nil)
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, errors.New("the Secret has no text")
	})
	// region page
	var page controllerruntime.Page
	if err := page.AddTo(mgr); err != nil {
		fmt.Println(err)
		return
	}
	shown := controllerruntime.Show(&page, "secrets", reconciler) // for Complete(shown)
	// endregion
	_, err = shown.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "password"}})
	fmt.Println(err)
	// Output: the Secret has no text
}

// The queues of a manager's controllers, for NewQueue.
func ExampleQueues() {
	var queues controllerruntime.Queues[reconcile.Request]
	options := controller.Options{NewQueue: queues.New}
	q := options.NewQueue("websites", nil) // as a controller calls it
	q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web"}})
	for _, entry := range queues.Entries(10)["websites"] {
		fmt.Println(entry.Key)
	}
	// Output: shop/web
}

// The state of a cache, for metrics and pages.
func ExampleStatus() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config, options := exampleServer(ctx)
	options.NewCache = controllerruntime.NewCache(&controllerruntime.Options{OnDemand: []client.Object{&corev1.Secret{}}})
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	// region metrics
	informers := func() []informer.Status { return controllerruntime.Status(mgr.GetCache()) }
	err = ctrlmetrics.Registry.Register(metrics.Informers(informers))
	// endregion
	if err != nil {
		fmt.Println(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	mgr.GetCache().WaitForCacheSync(ctx)
	if err := mgr.GetClient().Get(ctx, client.ObjectKey{Namespace: "shop", Name: "password"}, &corev1.Secret{}); err != nil {
		fmt.Println(err)
	}
	for _, s := range informers() {
		fmt.Println(s.Name, s.Objects)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// secrets 1
	// <nil>
}
