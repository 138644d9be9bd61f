package zoo

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// plain is a controller in the style of client-go's sample controller:
// informers, a work queue, one worker.
type plain struct {
	wiring
	client      kubernetes.Interface
	world       any
	apps        cache.SharedIndexInformer
	secretCache cache.SharedIndexInformer // the cached Secrets
	queue       workqueue.TypedRateLimitingInterface[types.NamespacedName]
	list        func() []any                                               // returns the cached Secrets
	look        func(ctx context.Context, name types.NamespacedName) error // handles one key
	reconciles  Reconcile
	lister      listers.ConfigMapLister
	synced      []cache.InformerSynced
	started     sync.WaitGroup
}

func onClientGo(w wiring) Program {
	return func(env *reconciletest.Env) error {
		p := newPlain(env.Client(), w)
		p.world = env.Outside()
		env.Cache("configmaps", p.apps.GetStore().List)
		env.Cache("secrets", p.secretCache.GetStore().List)
		p.handle(p.apps, p.appHandler())
		p.handle(p.secretCache, p.secretHandler())
		return p.run(env.Context(), p.synced...)
	}
}

func newPlain(client kubernetes.Interface, w wiring) *plain {
	ofApps := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = labelApp })
	apps := informers.NewSharedInformerFactoryWithOptions(client, 0, ofApps).Core().V1().ConfigMaps()
	secrets := informers.NewSharedInformerFactory(client, 0).Core().V1().Secrets().Informer()
	p := &plain{
		wiring: w, client: client, reconciles: w.reconcile(),
		apps: apps.Informer(), lister: apps.Lister(), secretCache: secrets, list: secrets.GetStore().List,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
	}
	p.look = p.reconcile
	return p
}

func (p *plain) handle(i cache.SharedIndexInformer, h cache.ResourceEventHandler) {
	registered, err := i.AddEventHandler(h)
	if err != nil {
		panic(err) // the informer has already been stopped
	}
	p.synced = append(p.synced, registered.HasSynced)
}

func (p *plain) appHandler() cache.ResourceEventHandlerFuncs {
	add := func(obj any) { p.queue.Add(keyOf(obj)) }
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add}
}

// secretHandler enqueues the App to which a Secret belongs.
func (p *plain) secretHandler() cache.ResourceEventHandlerFuncs {
	add := func(obj any) {
		if s, ok := last(obj).(*corev1.Secret); ok && s.Labels[labelOf] != "" {
			p.queue.Add(types.NamespacedName{Namespace: namespace, Name: s.Labels[labelOf]})
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }, DeleteFunc: add}
}

// last returns obj or, if obj is the tombstone of an object whose deletion was
// missed, the last known state of that object.
func last(obj any) any {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return obj
}

func keyOf(obj any) types.NamespacedName {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		name, _ := cache.ParseObjectName(tombstone.Key)
		return types.NamespacedName(name)
	}
	m := obj.(metav1.Object)
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
}

// run waits until the informers in synced have synced, and then works until ctx
// ends.
func (p *plain) run(ctx context.Context, synced ...cache.InformerSynced) error {
	defer p.started.Wait()
	defer p.queue.ShutDown()
	p.watch(ctx)
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		p.work(ctx)
		<-ctx.Done()
	}
	return nil
}

func (p *plain) watch(ctx context.Context) {
	p.started.Go(func() { p.apps.RunWithContext(ctx) })
	p.started.Go(func() { p.secretCache.RunWithContext(ctx) })
}

func (p *plain) work(ctx context.Context) {
	p.started.Go(func() {
		for p.next(ctx) {
			continue
		}
	})
}

func (p *plain) next(ctx context.Context) bool {
	name, shutdown := p.queue.Get()
	if shutdown {
		return false
	}
	defer p.queue.Done(name)
	if err := p.look(ctx, name); err != nil {
		p.queue.AddRateLimited(name)
		return true
	}
	p.queue.Forget(name)
	return true
}

func (p *plain) reconcile(ctx context.Context, name types.NamespacedName) error {
	app, err := p.lister.ConfigMaps(name.Namespace).Get(name.Name)
	switch {
	case apierrors.IsNotFound(err) && p.gone != nil:
		return p.gone(ctx, p, name)
	case err != nil:
		return nil
	case app.DeletionTimestamp != nil && !p.deleting:
		return nil
	}
	return p.reconciles(ctx, p, app)
}

func (p *plain) outsideState() any { return p.world }

func (p *plain) kube() kubernetes.Interface { return p.client }

func (p *plain) secrets(app string) []*corev1.Secret {
	var found []*corev1.Secret
	for _, obj := range p.list() {
		if s := obj.(*corev1.Secret); app == "" || s.Labels[labelOf] == app {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Secret) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func (p *plain) create(ctx context.Context, s *corev1.Secret) error {
	_, err := p.client.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (p *plain) remove(ctx context.Context, s *corev1.Secret) error {
	err := p.client.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))})
	if names.IsNotFound(err, corev1.Resource("secrets"), s.Name) { // a proxy's 404 says nothing of it
		return nil
	}
	return err
}

func (p *plain) annotate(ctx context.Context, app *corev1.ConfigMap, key, value string) error {
	if app.Annotations[key] == value {
		return nil
	}
	app = app.DeepCopy()
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, key, value)
	_, err := p.client.CoreV1().ConfigMaps(app.Namespace).Update(ctx, app, metav1.UpdateOptions{})
	return err
}

func (p *plain) finalize(ctx context.Context, app *corev1.ConfigMap, wanted bool) error {
	if slices.Contains(app.Finalizers, finalizer) == wanted {
		return nil
	}
	app = app.DeepCopy()
	app.Finalizers = slices.DeleteFunc(app.Finalizers, func(f string) bool { return f == finalizer })
	if wanted {
		app.Finalizers = append(app.Finalizers, finalizer)
	}
	_, err := p.client.CoreV1().ConfigMaps(app.Namespace).Update(ctx, app, metav1.UpdateOptions{})
	return err
}
