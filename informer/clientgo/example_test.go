package clientgo_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
)

// Follow a shared informer that the program has already.
func ExampleWrap() {
	clientset := fake.NewClientset(pod("shop", "web-1"))
	factory := informers.NewSharedInformerFactory(clientset, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	pods := clientgo.Wrap[*corev1.Pod](factory.Core().V1().Pods().Informer(), nil)
	factory.StartWithContext(ctx)
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(pods.Snapshot().Len())
	cancel()
	factory.Shutdown()
	fmt.Println(<-ended)
	// Output:
	// 1
	// <nil>
}

// Read an informer's cache with a generated lister.
func ExampleIndexer() {
	clientset := fake.NewClientset(pod("shop", "web-1"), pod("shop", "web-2"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	pods := informer.For(clientset.CoreV1().Pods(""), nil)
	lister := corelisters.NewPodLister(clientgo.Indexer(pods))
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	found, err := lister.Pods("shop").List(labels.Everything())
	fmt.Println(len(found), err)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// 2 <nil>
	// <nil>
}
