// Command homeostat copies one Secret into each of many namespaces.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/reconcile"
)

// parallelWrites is the number of copies that are written at the same time.
const parallelWrites = 10

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
	secrets := client.CoreV1().Secrets
	sources := informer.For(secrets("mirror-source"), nil)
	mirrored := informer.For(secrets(""), &informer.Options{Name: "copies", LabelSelector: "mirror=source"})
	set := children.New(corev1.SchemeGroupVersion.WithKind("Secret"), secrets, mirrored, secrets, &children.Options{
		ByLabel: true, Mark: map[string]string{"mirror": "source"}, Parallel: parallelWrites,
	})
	c, err := reconcile.New("mirror", sources, reconcile.Func[*corev1.Secret](
		func(ctx context.Context, r reconcile.Request[*corev1.Secret]) (reconcile.Result, error) {
			source, ok := r.Object()
			if !ok || r.Key.Name != "source" {
				return reconcile.Result{}, nil
			}
			wanted := make([]children.Child[*corev1.Secret], copies)
			for n := range wanted {
				wanted[n] = children.Child[*corev1.Secret]{
					Namespace: fmt.Sprintf("mirror-%03d", n), Name: "source",
					Edit: func(s *corev1.Secret) { s.Data = maps.Clone(source.Data) },
				}
			}
			_, err := set.Ensure(ctx, source, wanted...)
			return reconcile.Result{}, err
		}), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(mirrored)}})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}
