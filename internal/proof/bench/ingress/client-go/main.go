// Command client-go keeps an Ingress for each Service, in the shape of
// Kubernetes' sample-controller: shared informers, listers, a rate-limiting
// queue and workers, with protobuf.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/proof/bench/ingress/desired"
)

type controller struct {
	client    kubernetes.Interface
	services  corelisters.ServiceLister
	ingresses networkinglisters.IngressLister
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func (c *controller) enqueue(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if o, ok := object.(metav1.Object); ok {
		c.queue.Add(cache.MetaObjectToName(o))
	}
}

func (c *controller) enqueueOwner(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	o, ok := object.(metav1.Object)
	if !ok {
		return
	}
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "Service" {
		c.queue.Add(cache.ObjectName{Namespace: o.GetNamespace(), Name: owner.Name})
	}
}

func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	wanted := err == nil && desired.Wanted(service)
	client := c.client.NetworkingV1().Ingresses(key.Namespace)
	ingress, err := c.ingresses.Ingresses(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err) && !wanted:
		return nil
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name, OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service")),
			}},
			Spec: desired.Spec(service),
		}, metav1.CreateOptions{FieldManager: "rival"})
		return err
	case err != nil:
		return err
	case !wanted:
		if owner := metav1.GetControllerOf(ingress); owner == nil || owner.Kind != "Service" || owner.Name != key.Name {
			return nil
		}
		err = client.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ingress.UID}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	case !metav1.IsControlledBy(ingress, service):
		return fmt.Errorf("found Ingress %s, which does not belong to the Service", key)
	}
	if spec := desired.Spec(service); !equality.Semantic.DeepEqual(ingress.Spec, spec) {
		edited := ingress.DeepCopy()
		edited.Spec = spec
		_, err = client.Update(ctx, edited, metav1.UpdateOptions{FieldManager: "rival"})
	}
	return err
}

func (c *controller) work(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.sync(ctx, key); err != nil {
			klog.FromContext(ctx).Error(err, "reconciling the Ingress failed, retrying", "ingress", key)
			c.queue.AddRateLimited(key)
		} else {
			c.queue.Forget(key)
		}
		c.queue.Done(key)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "file of the cluster")
	_ = flag.String("listen-addr", "", "ignored, because the program serves no pages")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &controller{
		client: client, services: factory.Core().V1().Services().Lister(),
		ingresses: factory.Networking().V1().Ingresses().Lister(),
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	services, ingresses := factory.Core().V1().Services().Informer(), factory.Networking().V1().Ingresses().Informer()
	_, err = services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueue, UpdateFunc: func(_, object any) { c.enqueue(object) }, DeleteFunc: c.enqueue,
	})
	if err != nil {
		return err
	}
	_, err = ingresses.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueueOwner, UpdateFunc: func(_, object any) { c.enqueueOwner(object) }, DeleteFunc: c.enqueueOwner,
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), services.HasSynced, ingresses.HasSynced) {
		return ctx.Err()
	}
	var workers sync.WaitGroup
	for range desired.Workers {
		workers.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
