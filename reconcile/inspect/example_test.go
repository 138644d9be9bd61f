package inspect_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Which caches a program has, and for which controllers.
func ExampleInformers() {
	client := fake.NewClientset().CoreV1()
	pods := informer.For(client.Pods(""), nil)
	nothing := func(context.Context, reconcile.Key) (reconcile.Result, error) { return reconcile.Result{}, nil }
	nodes, err := reconcile.New("nodes", informer.For(client.Nodes(), nil), reconcile.Func[*corev1.Node](
		func(ctx context.Context, r reconcile.Request[*corev1.Node]) (reconcile.Result, error) {
			return nothing(ctx, r.Key)
		}),
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(pods)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := reconcile.New("pods", pods, reconcile.Func[*corev1.Pod](
		func(ctx context.Context, r reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
			return nothing(ctx, r.Key)
		}),
		nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, i := range inspect.Informers(nodes, again) {
		fmt.Println(i.Kind, i.Controllers, "synced:", i.Synced)
	}
	// Output:
	// Node [nodes] synced: false
	// Pod [nodes pods] synced: false
}

// Problems of a controller that keeps running, as /readyz names them.
func ExampleProblems() {
	pods := informer.For(fake.NewClientset().CoreV1().Pods(""), nil)
	c, err := reconcile.New("pods", pods, reconcile.Func[*corev1.Pod](
		func(context.Context, reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}), &reconcile.Options{Known: names.Func(func(context.Context) ([]names.Name, error) { return nil, nil })})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range inspect.Problems(c) {
		fmt.Printf("%s: %v\n", p.Check, p)
	}
	// Output:
	// sweep/pods: the first sweep for orphans has not ended yet
}
