// Command twin does the same as examples/ingress-per-service, but is written
// with controller-runtime in the usual way. It uses controller-runtime's
// manager, cached client, probes, metrics and events.
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
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	name      = "ingress-per-service-twin"
	exposeKey = "ingress.homeostat.dev/expose"
)

type reconciler struct {
	client.Client
	events events.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var service corev1.Service
	if err := r.Get(ctx, request.NamespacedName, &service); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
	if service.DeletionTimestamp != nil || service.Labels[exposeKey] != "true" || len(service.Spec.Ports) == 0 {
		if err := r.Get(ctx, request.NamespacedName, ingress); apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		} else if err != nil {
			return ctrl.Result{}, err
		}
		if !metav1.IsControlledBy(ingress, &service) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, ingress, client.Preconditions{UID: &ingress.UID}))
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, ingress, func() error {
		if ingress.UID != "" && !metav1.IsControlledBy(ingress, &service) {
			r.events.Eventf(&service, ingress, corev1.EventTypeWarning, "Foreign", "Reconcile", "another Ingress has this name")
			return fmt.Errorf("found Ingress %s, which does not belong to the Service", request)
		}
		pathType := networkingv1.PathTypePrefix
		ingress.Spec.Rules = []networkingv1.IngressRule{{
			Host: service.Name + "." + service.Namespace + ".example.com",
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: &pathType, Backend: networkingv1.IngressBackend{
						Service: &networkingv1.IngressServiceBackend{
							Name: service.Name, Port: networkingv1.ServiceBackendPort{Number: service.Spec.Ports[0].Port},
						},
					},
				}},
			}},
		}}
		return controllerutil.SetControllerReference(&service, ingress, r.Scheme())
	})
	return ctrl.Result{}, err
}

func run() error {
	kubeconfig := flag.Lookup("kubeconfig")
	address := flag.String("listen-addr", ":8080", "address of the metrics")
	probes := flag.String("probe-addr", ":8081", "address of the probes")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig.Value.String())
	if err != nil {
		return err
	}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: *address}, HealthProbeBindAddress: *probes,
	})
	if err != nil {
		return err
	}
	r := &reconciler{m.GetClient(), m.GetEventRecorder(name)}
	err = ctrl.NewControllerManagedBy(m).Named(name).
		For(&corev1.Service{}).
		Owns(&networkingv1.Ingress{}).
		WithEventFilter(predicate.ResourceVersionChangedPredicate{}).
		Complete(r)
	if err != nil {
		return err
	}
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := m.AddReadyzCheck("ping", healthz.Ping); err != nil {
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
