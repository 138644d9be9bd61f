package rival

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	clientgocache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	cr "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// Work is the function that a loop calls for each reconcile, with the Pod from
// the cache.
type Work func(pod *corev1.Pod)

type loop struct {
	name string
	run  func(ctx context.Context, url string, workers int, work Work) error
}

func loops() []loop {
	return []loop{
		{"homeostat", ourLoop(func(c Pods) Pods { return c })},
		{"homeostat-decoding-all", ourLoop(func(c Pods) Pods { return wrapped{c} })},
		{"controller-runtime", runtimeLoop(true)},
		{"controller-runtime-without-priority", runtimeLoop(false)},
		{"client-go", clientGoLoop},
	}
}

// Loops returns the names of the loops.
func Loops() (names []string) {
	for _, l := range loops() {
		names = append(names, l.name)
	}
	return names
}

// Loop runs the loop with this name until ctx ends. It consists of a cache for
// the Pods of the server at url, a queue, and workers that call work.
func Loop(ctx context.Context, name, url string, workers int, work Work) error {
	i := slices.Index(Loops(), name)
	if i < 0 {
		return fmt.Errorf("there is no loop named %q", name)
	}
	return loops()[i].run(ctx, url, workers, work)
}

// Pods is a client for Pods.
type Pods = informer.Client[*corev1.Pod, *corev1.PodList]

// wrapped hides the type of a client. The informer replaces the watches of
// client-go's own clients with its own, but uses the watches of other clients
// unchanged.
type wrapped struct{ Pods }

func ourLoop(wrap func(Pods) Pods) func(ctx context.Context, url string, workers int, work Work) error {
	return func(ctx context.Context, url string, workers int, work Work) error {
		client, err := clientOf(url)
		if err != nil {
			return err
		}
		pods := informer.For(wrap(client.CoreV1().Pods("")), nil)
		c, err := reconcile.New("bench", pods, reconcile.Func[*corev1.Pod](
			func(_ context.Context, r reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
				if pod, ok := r.Object(); ok {
					work(pod)
				}
				return reconcile.Result{}, nil
			}), &reconcile.Options{Workers: workers})
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}
}

func runtimeLoop(priority bool) func(ctx context.Context, url string, workers int, work Work) error {
	log.SetLogger(logr.Discard())
	return func(ctx context.Context, url string, workers int, work Work) error {
		caches, err := cache.New(config(url), cache.Options{Scheme: scheme.Scheme, Mapper: mapper{}})
		if err != nil {
			return fmt.Errorf("making a cache: %w", err)
		}
		skip := true
		c, err := controller.NewUnmanaged("bench", controller.Options{
			Reconciler: cr.Func(func(ctx context.Context, r cr.Request) (cr.Result, error) {
				var pod corev1.Pod
				if err := caches.Get(ctx, r.NamespacedName, &pod); err != nil {
					return cr.Result{}, err
				}
				work(&pod)
				return cr.Result{}, nil
			}),
			MaxConcurrentReconciles: workers, UsePriorityQueue: &priority, SkipNameValidation: &skip, Logger: logr.Discard(),
		})
		if err != nil {
			return fmt.Errorf("making the controller: %w", err)
		}
		pods := source.Kind(caches, &corev1.Pod{}, &handler.TypedEnqueueRequestForObject[*corev1.Pod]{})
		if err := c.Watch(pods); err != nil {
			return fmt.Errorf("watching the Pods: %w", err)
		}
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { _ = caches.Start(ctx) })
		return c.Start(ctx)
	}
}

// clientGoLoop runs the loop that programs write with client-go alone: a shared
// informer, a work queue and workers.
func clientGoLoop(ctx context.Context, url string, workers int, work Work) error {
	client, err := clientOf(url)
	if err != nil {
		return err
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
	shared := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	lister := corelisters.NewPodLister(shared.GetIndexer())
	add := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			q.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	registered, err := shared.AddEventHandler(clientgocache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, object any) { add(object) }, DeleteFunc: add,
	})
	if err != nil {
		return fmt.Errorf("adding a handler: %w", err)
	}
	worker := func() {
		for {
			key, shutdown := q.Get()
			if shutdown {
				return
			}
			if pod, err := lister.Pods(key.Namespace).Get(key.Name); err == nil {
				work(pod)
			}
			q.Forget(key)
			q.Done(key)
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer q.ShutDown()
	running.Go(func() { shared.RunWithContext(ctx) })
	clientgocache.WaitForCacheSync(ctx.Done(), registered.HasSynced)
	for range workers {
		running.Go(worker)
	}
	<-ctx.Done()
	return nil
}
