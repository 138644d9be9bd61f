// Command controller-runtime is an operator of Apps in the usual style of
// controller-runtime. It uses For, Owns, Watches with an index, and
// CreateOrUpdate.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/internal/proof/bench/references/app"
)

// The indexes of Apps by the objects to which they refer.
const (
	secretIndex    = "secrets"
	configMapIndex = "configMap"
)

type reconciler struct {
	client.Client

	own  bool
	done app.Done
}

// Reconcile reads the objects to which an App refers. If all of them exist and
// own is set, it writes the objects that the App owns.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var a app.App
	if err := r.Get(ctx, request.NamespacedName, &a); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	sum := 0
	for _, name := range a.Spec.Secrets {
		var secret corev1.Secret
		if err := r.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: name}, &secret); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		sum += len(secret.Data)
	}
	if a.Spec.ConfigMap != "" {
		var configMap corev1.ConfigMap
		err := r.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Spec.ConfigMap}, &configMap)
		if err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		sum += len(configMap.Data)
	}
	if r.own {
		if err := r.keep(ctx, &a, fmt.Sprint(sum)); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.done.Add(request.NamespacedName)
	return ctrl.Result{}, nil
}

func (r *reconciler) keep(ctx context.Context, a *app.App, sum string) error {
	meta := metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}
	deployment, service, secret := &appsv1.Deployment{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta},
		&corev1.Secret{ObjectMeta: meta}
	for object, edit := range map[client.Object]func(){
		deployment: func() {
			deployment.Spec.Selector = metav1.SetAsLabelSelector(map[string]string{"app": a.Name})
			metav1.SetMetaDataLabel(&deployment.Spec.Template.ObjectMeta, "app", a.Name)
			metav1.SetMetaDataAnnotation(&deployment.Spec.Template.ObjectMeta, "sum", sum)
			spec := &deployment.Spec.Template.Spec
			spec.Containers = append(spec.Containers, corev1.Container{})[:1]
			spec.Containers[0].Name, spec.Containers[0].Image = "web", "web"
		},
		service: func() {
			service.Spec.Selector = map[string]string{"app": a.Name}
			if len(service.Spec.Ports) == 0 {
				service.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
			}
		},
		secret: func() { secret.Data = map[string][]byte{"sum": []byte(sum)} },
	} {
		_, err := controllerutil.CreateOrUpdate(ctx, r.Client, object, func() error {
			edit()
			return controllerutil.SetControllerReference(a, object, r.Scheme())
		})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// enqueueReferring returns a handler that enqueues the Apps that refer to the
// changed object. It finds the Apps in the named index.
func (r *reconciler) enqueueReferring(index string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) (requests []reconcile.Request) {
		var apps app.AppList
		err := r.List(ctx, &apps, client.InNamespace(o.GetNamespace()), client.MatchingFields{index: o.GetName()})
		if err != nil {
			return nil
		}
		for i := range apps.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&apps.Items[i])})
		}
		return requests
	})
}

func run() error {
	r := &reconciler{}
	kubeconfig, address := flag.Lookup("kubeconfig"), flag.String("listen-addr", ":8080", "address of the metrics")
	flag.BoolVar(&r.own, "own", false, "own a Deployment, a Service and a Secret")
	flag.IntVar(&r.done.Want, "apps", 0, "how many Apps there are")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig.Value.String())
	if err != nil {
		return err
	}
	config.QPS = -1
	m, err := newManager(config, *address)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := r.setup(ctx, m); err != nil {
		return err
	}
	go app.Answer()
	return m.Start(ctx)
}

func newManager(config *rest.Config, address string) (ctrl.Manager, error) {
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), app.AddToScheme(kinds)); err != nil {
		return nil, err
	}
	return ctrl.NewManager(config, ctrl.Options{
		Scheme: kinds, Metrics: metricsserver.Options{BindAddress: address}, HealthProbeBindAddress: "0",
	})
}

// setup adds the indexes and the controller.
func (r *reconciler) setup(ctx context.Context, m ctrl.Manager) error {
	r.Client = m.GetClient()
	err := m.GetFieldIndexer().IndexField(ctx, &app.App{}, secretIndex,
		func(o client.Object) []string { return o.(*app.App).Spec.Secrets })
	if err != nil {
		return err
	}
	err = m.GetFieldIndexer().IndexField(ctx, &app.App{}, configMapIndex,
		func(o client.Object) []string { return []string{o.(*app.App).Spec.ConfigMap} })
	if err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(m).Named("apps").For(&app.App{}).
		Watches(&corev1.Secret{}, r.enqueueReferring(secretIndex)).
		Watches(&corev1.ConfigMap{}, r.enqueueReferring(configMapIndex))
	if r.own {
		b = b.Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).Owns(&corev1.Secret{})
	}
	return b.Complete(r)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
