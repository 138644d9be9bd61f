package reconcile_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest/fakes"
)

// keepTokens gives every ServiceAccount a Secret, and watches both.
func keepTokens(ctx context.Context, client kubernetes.Interface) error {
	accounts := informer.For(client.CoreV1().ServiceAccounts(""), nil)
	tokens := informer.For(client.CoreV1().Secrets(""), nil)
	set := children.New(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), client.CoreV1().ServiceAccounts,
		tokens, client.CoreV1().Secrets, nil)
	keep := reconcile.Func[*corev1.ServiceAccount](
		func(ctx context.Context, r reconcile.Request[*corev1.ServiceAccount]) (reconcile.Result, error) {
			account, ok := r.Object()
			if !ok {
				return reconcile.Result{}, nil // the garbage collector deletes the Secret
			}
			_, err := set.Ensure(ctx, account, children.Child[*corev1.Secret]{
				Name: account.Name + "-token",
				Edit: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
			})
			return reconcile.Result{}, err
		})
	c, err := reconcile.New("tokens", accounts, keep, &reconcile.Options{
		Triggers: []reconcile.Trigger{reconcile.Owned(tokens)}, // a deleted Secret wakes its owner
	})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// What a controller writes it also watches: an output that another client
// deletes is there again at once.
func ExampleOwned() {
	client := fake.NewClientset(&corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1f"},
	})
	if err := fakes.Faithful(client); err != nil { // the fake alone loses what happens between a list and its watch
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	secrets := client.CoreV1().Secrets("shop")
	changes, err := secrets.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- keepTokens(ctx, client) }()

	fmt.Println((<-changes.ResultChan()).Type)
	fmt.Println(secrets.Delete(ctx, "web-token", metav1.DeleteOptions{}))
	fmt.Println((<-changes.ResultChan()).Type)
	fmt.Println((<-changes.ResultChan()).Type)
	stop()
	fmt.Println(<-ended)
	// Output:
	// ADDED
	// <nil>
	// DELETED
	// ADDED
	// <nil>
}

// A mapper finds the keys that an object of another kind is about: here the
// Node of a Pod, before and after the change.
func ExampleMapped() {
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
	)
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	pods := informer.For(client.CoreV1().Pods(""), nil)
	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	count := make(chan int, 10)
	nodes := reconcile.Func[*corev1.Node](
		func(_ context.Context, r reconcile.Request[*corev1.Node]) (reconcile.Result, error) {
			n := 0
			for range byNode.Get(r.Key.Name) {
				n++
			}
			count <- n
			return reconcile.Result{}, nil
		})
	nodesOf := func(_ context.Context, before, after *corev1.Pod) ([]reconcile.Key, error) {
		var keys []reconcile.Key
		for _, pod := range []*corev1.Pod{before, after} { // nil before its creation, and after its deletion
			if pod != nil && pod.Spec.NodeName != "" {
				keys = append(keys, reconcile.Key{Name: pod.Spec.NodeName})
			}
		}
		return keys, nil
	}
	c, err := reconcile.New("pods-per-node", informer.For(client.CoreV1().Nodes(), nil), nodes,
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(pods, nodesOf)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()

	fmt.Println(<-count)
	scheduled := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
	}
	if _, err := client.CoreV1().Pods("shop").Update(ctx, scheduled, metav1.UpdateOptions{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-count)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 0
	// 1
	// <nil>
}

// Keys come from a webhook, a message queue, a timer: the reconciler is the
// same.
func ExampleExternal() {
	client := fake.NewClientset()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	sync := reconcile.Func[*corev1.ConfigMap](
		func(_ context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			_, ok := r.Object()
			fmt.Println(r.Key, "is in the cluster:", ok)
			stop()
			return reconcile.Result{}, nil
		})
	webhook := make(chan reconcile.Key)
	c, err := reconcile.New("repositories", informer.For(client.CoreV1().ConfigMaps(""), nil), sync,
		&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.External("webhook", webhook)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	webhook <- reconcile.Key{Namespace: "shop", Name: "catalogue"} // what has changed, not how
	fmt.Println(<-ended)
	// Output:
	// shop/catalogue is in the cluster: false
	// <nil>
}
