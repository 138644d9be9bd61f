package informer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
)

// A program's own probe and page can show the state of a cache.
func ExampleInformer_Status() {
	clientset := fake.NewClientset(pod("shop", "web-1"), pod("bank", "db-1"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	pods := informer.For(clientset.CoreV1().Pods(""), nil)
	fmt.Println(pods.HasSynced())
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	status := pods.Status()
	fmt.Println(pods.Name(), pods.HasSynced(), status.Kind, status.Objects, status.Size() > 0)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// false
	// pods true Pod 2 true
	// <nil>
}

// A cache is always a little late. These calls wait until it is as new as a
// write, as the server's state of one object, and as the server.
func ExampleInformer_WaitFor() {
	clientset := fake.NewClientset()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	pods := informer.For(clientset.CoreV1().Pods(""), nil)
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	created, err := clientset.CoreV1().Pods("shop").Create(ctx, pod("shop", "web-1"), metav1.CreateOptions{})
	fmt.Println(err)
	fmt.Println(pods.WaitFor(ctx, created.ResourceVersion))
	fmt.Println(pods.WaitForObject(ctx, types.NamespacedName{Namespace: "shop", Name: "web-1"}))
	fmt.Println(pods.WaitForLatest(ctx))
	cancel()
	fmt.Println(<-ended)
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil>
	// <nil>
}

// A shared object was modified although it must not be. A controller finds that
// after each reconcile, and a test finds it at its end.
func ExampleInformer_CheckMutations() {
	clientset := fake.NewClientset(pod("shop", "web-1"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	pods := informer.For(clientset.CoreV1().Pods(""), nil)
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	web, _ := pods.Get(types.NamespacedName{Namespace: "shop", Name: "web-1"})
	web.Labels = map[string]string{"app": "web"} // without a DeepCopy
	mutated, _ := errors.AsType[*informer.MutationError](pods.CheckMutations())
	fmt.Println(mutated.Kind, mutated.Key, mutated.Fields)
	cancel()
	<-ended
	// Output: Pod shop/web-1 [metadata.labels]
}

// A handler of another informer asks whether an object would be in the cache.
func ExampleInformer_Matches() {
	pods := informer.For(fake.NewClientset().CoreV1().Pods(""), &informer.Options{LabelSelector: "app=web"})
	web := pod("shop", "web-1")
	web.Labels = map[string]string{"app": "web"}
	fmt.Println(pods.Matches(web))
	fmt.Println(pods.Matches(pod("shop", "db-1")))
	// Output:
	// true true
	// false true
}

// Both reads use one snapshot, so the number of objects matches the list.
func ExampleIndex_In() {
	web, db := pod("shop", "web-1"), pod("shop", "db-1")
	web.Spec.NodeName, db.Spec.NodeName = "node-1", "node-2"
	clientset := fake.NewClientset(web, db)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	pods := informer.For(clientset.CoreV1().Pods(""), nil)
	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	snapshot := pods.Snapshot()
	for p := range byNode.In(snapshot, "node-2") {
		fmt.Println(p.Name, "is one of", snapshot.Len())
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// db-1 is one of 2
	// <nil>
}
