package loop_test

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	cr "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// setup is the input of a loop.
type setup struct {
	server     *memory
	workers    int
	reconciled func(key) // the reconciler
}

// loop runs until its context ends. add makes keys due, without events of their
// own, once it has been called with nil.
type loop struct {
	run func(ctx context.Context) error
	add func(keys []key)
}

// rivals have causes and metrics on as far as they have them, and discard logs.
var rivals = []struct {
	name string
	make func(b *testing.B, s setup) loop
}{
	{"homeostat", newOurs},
	{"controller-runtime", func(b *testing.B, s setup) loop { return newRuntime(b, s, true) }},
	{"controller-runtime-without-priority", func(b *testing.B, s setup) loop { return newRuntime(b, s, false) }},
	{"client-go", newRaw},
}

func newOurs(b *testing.B, s setup) loop {
	options := &informer.Options{MutationCheck: "never"}
	bell := newMemory(1) // an event of it is mapped to many keys
	var due []key
	c, err := reconcile.New("bench", informer.For(s.server, options), reconcile.Func[*corev1.ConfigMap](
		func(_ context.Context, r reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			s.reconciled(r.Key)
			return reconcile.Result{}, nil
		}),
		&reconcile.Options{Workers: s.workers, Triggers: []reconcile.Trigger{
			reconcile.Mapped(informer.For(bell, options), func(context.Context, *corev1.ConfigMap, *corev1.ConfigMap) ([]reconcile.Key, error) {
				return due, nil
			}),
		}})
	if err != nil {
		b.Fatal(err)
	}
	return loop{run: c.Run, add: func(keys []key) {
		due = keys
		bell.update(0)
	}}
}

func newRuntime(b *testing.B, s setup, priority bool) loop {
	skip := true
	c, err := controller.NewUnmanaged("bench", controller.Options{
		Reconciler: cr.Func(func(_ context.Context, r cr.Request) (cr.Result, error) {
			s.reconciled(r.NamespacedName)
			return cr.Result{}, nil
		}),
		MaxConcurrentReconciles: s.workers, UsePriorityQueue: &priority,
		SkipNameValidation: &skip, Logger: logr.Discard(),
	})
	if err != nil {
		b.Fatal(err)
	}
	var q workqueue.TypedRateLimitingInterface[cr.Request]
	shared := toolscache.NewSharedIndexInformer(listWatch{s.server}, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	for _, src := range []source.Source{
		&source.Informer{Informer: shared, Handler: &handler.EnqueueRequestForObject{}},
		source.Func(func(_ context.Context, given workqueue.TypedRateLimitingInterface[cr.Request]) error {
			q = given
			return nil
		}),
	} {
		if err := c.Watch(src); err != nil {
			b.Fatal(err)
		}
	}
	return loop{
		run: func(ctx context.Context) error {
			var running sync.WaitGroup
			defer running.Wait()
			running.Go(func() { shared.RunWithContext(ctx) })
			return c.Start(ctx)
		},
		add: func(keys []key) {
			for _, k := range keys {
				q.Add(cr.Request{NamespacedName: k})
			}
		},
	}
}

// newRaw returns the loop that people write without an SDK.
func newRaw(_ *testing.B, s setup) loop {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[key]())
	shared := toolscache.NewSharedIndexInformer(listWatch{s.server}, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	add := func(object any) {
		if o, ok := object.(*corev1.ConfigMap); ok {
			q.Add(key{Namespace: o.Namespace, Name: o.Name})
		}
	}
	work := func() {
		for {
			k, shutdown := q.Get()
			if shutdown {
				return
			}
			s.reconciled(k)
			q.Forget(k)
			q.Done(k)
		}
	}
	return loop{
		run: func(ctx context.Context) error {
			registered, err := shared.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: add, UpdateFunc: func(_, object any) { add(object) }, DeleteFunc: add,
			})
			if err != nil {
				return err
			}
			var running sync.WaitGroup
			defer running.Wait()
			defer q.ShutDown()
			running.Go(func() { shared.RunWithContext(ctx) })
			toolscache.WaitForCacheSync(ctx.Done(), registered.HasSynced)
			for range s.workers {
				running.Go(work)
			}
			<-ctx.Done()
			return nil
		},
		add: func(keys []key) {
			for _, k := range keys {
				q.Add(k)
			}
		},
	}
}
