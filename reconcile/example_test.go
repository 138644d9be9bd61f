package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

func keepOwners(ctx context.Context, client kubernetes.Interface) error {
	namespaces := client.CoreV1().Namespaces()
	owner := reconcile.Func[*corev1.Namespace](
		func(ctx context.Context, r reconcile.Request[*corev1.Namespace]) (reconcile.Result, error) {
			namespace, ok := r.Object() // from the cache: shared, read only
			if !ok || namespace.Annotations["owner"] != "" {
				return reconcile.Result{}, nil
			}
			_, err := patch.Merge(ctx, patch.ClusterScoped(namespaces), namespace, nil, func(edit *corev1.Namespace) {
				metav1.SetMetaDataAnnotation(&edit.ObjectMeta, "owner", "nobody")
			})
			return reconcile.Result{}, err
		})
	return reconcile.Run(ctx, "owners", informer.For(namespaces, nil), owner)
}

// A whole controller: every namespace has an owner.
func Example() {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	changes, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- keepOwners(ctx, client) }()

	for event := range changes.ResultChan() {
		if namespace := event.Object.(*corev1.Namespace); namespace.Annotations["owner"] != "" {
			fmt.Println(namespace.Name, "belongs to", namespace.Annotations["owner"])
			stop()
			break
		}
	}
	fmt.Println("stopped:", <-ended)
	// Output:
	// team-a belongs to nobody
	// stopped: <nil>
}

// A Reconciler is called directly in a unit test.
func ExampleRequest_WithObject() {
	greet := reconcile.Func[*corev1.ConfigMap](
		func(_ context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			object, ok := r.Object()
			if !ok {
				return reconcile.Result{}, reconcile.Terminal(errors.New("nobody to greet"))
			}
			fmt.Println("hello", object.Name)
			return reconcile.After(time.Hour), nil
		})
	present := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	_, err := greet(context.Background(), reconcile.Request[*corev1.ConfigMap]{}.WithObject(present))
	fmt.Println(err)
	_, err = greet(context.Background(), reconcile.Request[*corev1.ConfigMap]{Key: reconcile.Key{Name: "b"}})
	fmt.Println(err)
	// Output:
	// hello a
	// <nil>
	// nobody to greet
}
