// Command controller-runtime copies one Secret into each of many namespaces, in
// the usual style of controller-runtime. It uses a map function and
// CreateOrUpdate.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// parallelWrites is the number of copies that are written at the same time.
const parallelWrites = 10

type reconciler struct {
	client.Client

	copies int
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var source corev1.Secret
	if err := r.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	errs := make([]error, r.copies)
	var writes errgroup.Group
	writes.SetLimit(parallelWrites)
	for n := range r.copies {
		writes.Go(func() error {
			mirrored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("mirror-%03d", n), Name: "source"}}
			_, errs[n] = controllerutil.CreateOrUpdate(ctx, r.Client, mirrored, func() error {
				mirrored.Labels, mirrored.Data = map[string]string{"mirror": "source"}, maps.Clone(source.Data)
				return nil
			})
			return nil
		})
	}
	_ = writes.Wait() // the errors are in errs
	return ctrl.Result{}, errors.Join(errs...)
}

func run() error {
	kubeconfig, copies := flag.Lookup("kubeconfig"), flag.String("copies", "0", "how many namespaces there are")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	n, err := strconv.Atoi(*copies)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig.Value.String())
	if err != nil {
		return err
	}
	config.QPS = -1
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(m).Named("mirror").
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ofSource)).
		Complete(&reconciler{m.GetClient(), n})
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

// ofSource returns a request for the source if s is the source, and no requests
// for other Secrets.
func ofSource(_ context.Context, s client.Object) []reconcile.Request {
	if s.GetName() != "source" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "mirror-source", Name: "source"}}}
}
