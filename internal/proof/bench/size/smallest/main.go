// Command smallest is a controller that has no optional parts, such as probes,
// metrics and the debug page.
package main

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	controller, err := reconcile.New("smallest", informer.For(client.CoreV1().ConfigMaps(""), nil),
		reconcile.Func[*corev1.ConfigMap](
			func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), nil)
	if err != nil {
		panic(err)
	}
	panic(controller.Run(context.Background()))
}
