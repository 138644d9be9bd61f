// Command controller-runtime keeps an Ingress for each Service, with the usual
// means of controller-runtime: For, Owns, CreateOrUpdate and owner references.
// It deletes the Ingress of a Service that is deleted or has opted out. Usually
// the garbage collector would do that, but it does not run in the benchmark,
// because it would work for this program only.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat/homeostat/internal/proof/bench/ingress/desired"
)

type reconciler struct{ client.Client }

// Reconcile writes or removes the Ingress of a Service. It is called for each
// Service, and for the owner of each Ingress.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var service corev1.Service
	err := r.Get(ctx, request.NamespacedName, &service)
	if apierrors.IsNotFound(err) || err == nil && !desired.Wanted(&service) {
		return ctrl.Result{}, r.clean(ctx, request)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, ingress, func() error {
		ingress.Spec = desired.Spec(&service)
		return controllerutil.SetControllerReference(&service, ingress, r.Scheme())
	})
	return ctrl.Result{}, err
}

func (r *reconciler) clean(ctx context.Context, request ctrl.Request) error {
	var ingress networkingv1.Ingress
	if err := r.Get(ctx, request.NamespacedName, &ingress); err != nil {
		return client.IgnoreNotFound(err)
	}
	if owner := metav1.GetControllerOf(&ingress); owner == nil || owner.Kind != "Service" || owner.Name != request.Name {
		return nil
	}
	return client.IgnoreNotFound(r.Delete(ctx, &ingress, client.Preconditions{UID: &ingress.UID}))
}

func run() error {
	kubeconfig := flag.Lookup("kubeconfig")
	address := flag.String("listen-addr", ":8080", "address of the metrics")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig.Value.String())
	if err != nil {
		return err
	}
	config.QPS = -1
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: *address}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(m).Named("rival").
		For(&corev1.Service{}).Owns(&networkingv1.Ingress{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: desired.Workers}).
		Complete(&reconciler{m.GetClient()})
	if err != nil {
		return err
	}
	return m.Start(ctrl.SetupSignalHandler())
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
