// Command homeostat copies one Secret into each of many namespaces.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the cluster")
	copies := flag.Int("copies", 0, "how many namespaces there are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, *kubeconfig, *copies)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, copies int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	reached, err := cluster.New(config, nil)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(reached.Config())
	if err != nil {
		return err
	}
	sources := informer.For(client.CoreV1().Secrets("mirror-source"), nil)
	mirrored := informer.For(client.CoreV1().Secrets(""),
		&informer.Options{Name: "copies", LabelSelector: "mirror=source"})
	owner := []reconcile.Key{{Namespace: "mirror-source", Name: "source"}}
	c, err := reconcile.New("mirror", sources, reconcile.Func[*corev1.Secret](
		func(ctx context.Context, r reconcile.Request[*corev1.Secret]) (reconcile.Result, error) {
			source, ok := r.Object()
			if !ok || r.Key != owner[0] {
				return reconcile.Result{}, nil
			}
			var errs []error
			for n := range copies {
				key := types.NamespacedName{Namespace: fmt.Sprintf("mirror-%03d", n), Name: "source"}
				base, ok := mirrored.Get(key)
				if !ok {
					base = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
				}
				_, err := patch.Ensure(ctx, client.CoreV1().Secrets, base, nil, func(s *corev1.Secret) {
					s.Labels, s.Data = map[string]string{"mirror": "source"}, maps.Clone(source.Data)
				})
				errs = append(errs, err)
			}
			return reconcile.Result{}, errors.Join(errs...)
		}), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(mirrored,
		func(context.Context, *corev1.Secret, *corev1.Secret) ([]reconcile.Key, error) { return owner, nil },
	)}})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}
