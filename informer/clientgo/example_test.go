package clientgo_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

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

// podsOf lists and watches all Pods with a client.
func podsOf(client kubernetes.Interface) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods("").List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods("").Watch(ctx, opts)
		},
	}, client)
}

// A factory returns the informer that was made first for a kind. So its
// listers, and all other code that requests Pods from it, read this informer.
func ExampleNewSharedIndexInformer() {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(pod("shop", "web-1")), 0)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	factory.InformerFor(&corev1.Pod{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return clientgo.NewSharedIndexInformer(podsOf(c), &corev1.Pod{}, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
	pods := factory.Core().V1().Pods()
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
	if err != nil {
		fmt.Println(err)
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	found, err := pods.Lister().Pods("shop").List(labels.Everything())
	fmt.Println(len(found), err)
	cancel()
	factory.Shutdown()
	// Output:
	// 1 <nil>
}

// Describe the objects in client-go's logs.
func ExampleNewSharedIndexInformerWithOptions() {
	shared := clientgo.NewSharedIndexInformerWithOptions(podsOf(fake.NewClientset()), &corev1.Pod{},
		cache.SharedIndexInformerOptions{ObjectDescription: "the shop's pods", ResyncPeriod: 10 * time.Minute})
	fmt.Println(shared.HasSyncedChecker().Name())
	// Output:
	// SharedIndexInformer *v1.Pod
}

// Keep an eye on informers that something else runs, such as a manager of
// controller-runtime.
func ExampleInformers() {
	var informers clientgo.Informers
	pods := informers.New(podsOf(fake.NewClientset(pod("shop", "web-1"))), &corev1.Pod{}, 0, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	go pods.RunWithContext(ctx)
	cache.WaitFor(ctx, "", pods.HasSyncedChecker())
	for _, status := range informers.Status() {
		fmt.Println(status.Name, status.Objects, status.Problems)
	}
	// Output:
	// pods 1 []
}

// Wrap the config before the clients are made. All informers of these clients
// then leave out the decoding of unchanged specs.
func ExampleReuseSpecs() {
	config := &rest.Config{Host: "https://kubernetes.example.org"}
	config.Wrap(clientgo.ReuseSpecs)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := clientgo.NewSharedIndexInformer(podsOf(client), &corev1.Pod{}, 0, cache.Indexers{})
	fmt.Println(pods.HasSynced()) // call pods.RunWithContext to start it
	// Output: false
}

// Let all informers of a factory drop the managed fields.
func ExampleDropManagedFields() {
	managed := pod("shop", "web-1")
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	factory := informers.NewSharedInformerFactoryWithOptions(fake.NewClientset(managed), 0,
		informers.WithTransform(clientgo.DropManagedFields))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	factory.InformerFor(&corev1.Pod{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return clientgo.NewSharedIndexInformer(podsOf(c), &corev1.Pod{}, resync, cache.Indexers{})
	})
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	found, err := factory.Core().V1().Pods().Lister().List(labels.Everything())
	fmt.Println(len(found), len(found[0].ManagedFields), err)
	cancel()
	factory.Shutdown()
	// Output: 1 0 <nil>
}
