// Package plain is a controller that uses only client-go. It creates a
// ServiceAccount "worker" in each Namespace.
package plain

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// resync is how often every namespace is checked again, because a change may
// cause no event. For example, an account that is created and deleted while the
// watch is broken causes no event.
const resync = 30 * time.Second

// Name is the name of the ServiceAccount in each namespace.
const Name = "worker"

// Start creates the missing ServiceAccounts until ctx ends. It returns an error
// if it cannot start.
func Start(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, resync)
	namespaces, accounts := factory.Core().V1().Namespaces(), factory.Core().V1().ServiceAccounts()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(obj any) {
		if m, ok := obj.(metav1.Object); ok {
			queue.Add(m.GetName())
		}
	}
	addOwner := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if m, ok := obj.(metav1.Object); ok {
			queue.Add(m.GetNamespace())
		}
	}
	if _, err := namespaces.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) },
	}); err != nil {
		return err
	}
	if _, err := accounts.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: addOwner}); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	var worker sync.WaitGroup
	worker.Go(func() {
		for key, stop := queue.Get(); !stop; key, stop = queue.Get() {
			err := reconcile(ctx, client, namespaces.Informer().GetIndexer(), accounts.Informer().GetIndexer(), key)
			if err != nil {
				queue.AddRateLimited(key)
			} else {
				queue.Forget(key)
			}
			queue.Done(key)
		}
	})
	<-ctx.Done()
	queue.ShutDown()
	worker.Wait()
	return nil
}

func reconcile(
	ctx context.Context, client kubernetes.Interface, namespaces, accounts cache.Indexer, name string,
) error {
	obj, found, err := namespaces.GetByKey(name)
	if err != nil || !found {
		return err
	}
	if ns, ok := obj.(*corev1.Namespace); !ok || ns.DeletionTimestamp != nil {
		return nil
	}
	if _, found, err := accounts.GetByKey(name + "/" + Name); err != nil || found {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: Name}}
	_, err = client.CoreV1().ServiceAccounts(name).Create(ctx, account, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
