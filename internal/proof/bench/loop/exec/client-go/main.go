// Command client-go is a controller of ConfigMaps that exits in its first
// reconcile, written without an SDK.
package main

import (
	"context"
	"os"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	maps := factory.Core().V1().ConfigMaps().Informer()
	if _, err := maps.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			q.Add(key)
		}
	}}); err != nil {
		panic(err)
	}
	ctx := context.Background()
	factory.StartWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), maps.HasSynced)
	q.Get()
}
