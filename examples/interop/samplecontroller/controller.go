// Package samplecontroller is a controller in the style of
// k8s.io/sample-controller. It uses the informers of client-go, but the queue
// and the leader election of Homeostat.
package samplecontroller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/workqueue"
)

// shouted is the annotation with the text of a ConfigMap in capital letters.
const shouted = "example.com/shouted"

// Controller shouts the text of ConfigMaps: it writes the text in capital
// letters to an annotation. It can run only once, because Run shuts down its
// queue.
type Controller struct {
	client    kubernetes.Interface
	lister    corelisters.ConfigMapLister
	shared    cache.SharedIndexInformer
	handler   cache.ResourceEventHandlerRegistration
	workqueue clientgo.TypedRateLimitingInterface[cache.ObjectName]
}

// NewController returns a controller. It adds a handler to the informer, and
// Run removes the handler when it returns. keys is the controller's queue,
// whose Stats and Entries describe the work that waits.
func NewController(
	client kubernetes.Interface, maps coreinformers.ConfigMapInformer, keys *queue.Queue[cache.ObjectName],
) (*Controller, error) {
	c := &Controller{
		client: client, lister: maps.Lister(), shared: maps.Informer(),
		// This replaces workqueue.NewTypedRateLimitingQueue. The rest is
		// unchanged.
		workqueue: workqueue.New(keys, nil),
	}
	var err error
	c.handler, err = c.shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, obj any) { c.enqueue(obj) },
	})
	return c, err
}

func (c *Controller) enqueue(obj any) {
	if name, err := cache.ObjectToName(obj); err == nil {
		c.workqueue.Add(name)
	}
}

// Run reconciles ConfigMaps until ctx ends. It returns after all workers have
// returned.
func (c *Controller) Run(ctx context.Context, workers int) error {
	if c.workqueue.ShuttingDown() {
		return errors.New("running the controller: it can run only once, because its queue is shut down: create a new one")
	}
	defer func() { _ = c.shared.RemoveEventHandler(c.handler) }() // otherwise each term would leave a handler behind
	defer c.workqueue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.handler.HasSynced) {
		return nil
	}
	var wg sync.WaitGroup // Run returns after the last write, so that the Lease is released only then.
	defer wg.Wait()
	defer c.workqueue.ShutDown()
	for range workers {
		wg.Go(func() {
			for c.processNextWorkItem(ctx) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	name, shutdown := c.workqueue.Get()
	if shutdown || ctx.Err() != nil {
		return false
	}
	defer c.workqueue.Done(name)
	if err := c.syncHandler(ctx, name); err != nil {
		klog.FromContext(ctx).Error(err, "writing the annotation failed, retrying", "configMap", name)
		c.workqueue.AddRateLimited(name)
		return true
	}
	c.workqueue.Forget(name)
	return true
}

func (c *Controller) syncHandler(ctx context.Context, name cache.ObjectName) error {
	cached, err := c.lister.ConfigMaps(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	loud := strings.ToUpper(cached.Data["text"])
	if cached.Annotations[shouted] == loud {
		return nil
	}
	edited := cached.DeepCopy()
	metav1.SetMetaDataAnnotation(&edited.ObjectMeta, shouted, loud)
	if _, err := c.client.CoreV1().ConfigMaps(name.Namespace).Update(ctx, edited, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing annotation %s of ConfigMap %s: %w", shouted, name, err)
	}
	return nil
}
