package zoo

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Model is a reported bug of a published controller whose module is not linked
// here. The model contains only the controller's wiring and the part of its
// reconcile that has the bug. Both are written anew with client-go.
type Model struct {
	// Name describes the bug.
	Name string
	// Record is the report of the bug, or its fix.
	Record string
	// World returns the case to explore, without Run.
	World func() *reconciletest.Case
	// Bug has the bug, and Fixed has the fix of the published controller.
	Bug, Fixed Program
	// Found is the name of the oracle that finds the bug.
	Found string
}

// feed is an informer, and the function that maps an event to keys. The
// function gets nil for the old object of an addition, and for the new object
// of a deletion.
type feed struct {
	informer cache.SharedIndexInformer
	keys     func(old, fresh metav1.Object) []string
}

// model is the program of a Model while it runs.
type model struct {
	client kubernetes.Interface
	caches informers.SharedInformerFactory
	feeds  []feed
	// reconcile reconciles the App with this name. It returns the time
	// after which the App must be reconciled again, or 0.
	reconcile func(ctx context.Context, name string) (time.Duration, error)
}

// app returns the cached App with this name, or nil if it does not exist or is
// being deleted.
func (m *model) app(name string) *corev1.ConfigMap {
	app, err := m.caches.Core().V1().ConfigMaps().Lister().ConfigMaps(namespace).Get(name)
	if err != nil || app.Labels[labelApp] == "" || app.DeletionTimestamp != nil {
		return nil
	}
	return app
}

// apps returns the feed of the Apps.
func (m *model) apps() feed {
	return feed{m.caches.Core().V1().ConfigMaps().Informer(), func(old, fresh metav1.Object) []string {
		if o := firstSet(old, fresh); o.GetLabels()[labelApp] != "" {
			return []string{o.GetName()}
		}
		return nil
	}}
}

// referring returns a function that maps an object to the Apps that name it in
// one of the fields of their data.
func (m *model) referring(fields ...string) func(old, fresh metav1.Object) []string {
	return func(old, fresh metav1.Object) []string {
		var names []string
		for _, obj := range m.caches.Core().V1().ConfigMaps().Informer().GetStore().List() {
			app := obj.(*corev1.ConfigMap)
			for _, f := range fields {
				if app.Labels[labelApp] != "" && app.Data[f] == firstSet(old, fresh).GetName() {
					names = append(names, app.Name)
				}
			}
		}
		return names
	}
}

// annotate sets an annotation of an App, unless the annotation already has this
// value.
func (m *model) annotate(ctx context.Context, app *corev1.ConfigMap, key, value string) error {
	if app.Annotations[key] == value {
		return nil
	}
	app = app.DeepCopy()
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, key, value)
	_, err := m.client.CoreV1().ConfigMaps(namespace).Update(ctx, app, metav1.UpdateOptions{})
	return err
}

func firstSet(old, fresh metav1.Object) metav1.Object {
	if fresh != nil {
		return fresh
	}
	return old
}

// modelled returns a program. It calls build to set the program's feeds and its
// reconcile.
func modelled(build func(m *model)) Program {
	return func(env *reconciletest.Env) error {
		m := &model{client: env.Client(), caches: informers.NewSharedInformerFactory(env.Client(), 0)}
		build(m)
		return m.run(env.Context())
	}
}

func (m *model) run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	var synced []cache.InformerSynced
	for _, f := range m.feeds {
		registered, err := f.informer.AddEventHandler(f.handler(queue.Add))
		if err != nil {
			return err
		}
		synced = append(synced, registered.HasSynced)
	}
	m.caches.StartWithContext(ctx)
	defer m.caches.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	var worker sync.WaitGroup
	worker.Go(func() {
		for m.next(ctx, queue) {
			continue
		}
	})
	<-ctx.Done()
	queue.ShutDown()
	worker.Wait()
	return nil
}

func (m *model) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string]) bool {
	name, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(name)
	delay, err := m.reconcile(ctx, name)
	switch {
	case err != nil:
		queue.AddRateLimited(name)
		return true
	case delay > 0:
		queue.AddAfter(name, delay)
	}
	queue.Forget(name)
	return true
}

func (f feed) handler(add func(name string)) cache.ResourceEventHandlerFuncs {
	send := func(old, fresh any) {
		oldObject, _ := last(old).(metav1.Object)
		newObject, _ := last(fresh).(metav1.Object)
		for _, name := range f.keys(oldObject, newObject) {
			add(name)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { send(nil, obj) },
		UpdateFunc: send,
		DeleteFunc: func(obj any) { send(obj, nil) },
	}
}
