// Command page is a controller with probes, metrics and the debug page.
package main

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
	"github.com/homeostat/homeostat/status/profiles"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	controller, err := reconcile.New("page", informer.For(client.CoreV1().ConfigMaps(""), nil),
		reconcile.Func[*corev1.ConfigMap](
			func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), nil)
	if err != nil {
		panic(err)
	}
	handler, err := status.New(&status.Options{
		Controllers: []*reconcile.Controller{controller},
		Authorize:   status.Reviewed(client), Profiles: profiles.Handler(),
	})
	if err != nil {
		panic(err)
	}
	go func() { panic(status.Serve(context.Background(), "127.0.0.1:8080", handler)) }()
	panic(controller.Run(context.Background()))
}
