package exercises

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// shop contains the client and the caches with which a controller reconciles
// apps.
type shop struct {
	client  kubernetes.Interface
	apps    *informer.Informer[*corev1.ConfigMap]
	secrets *informer.Informer[*corev1.Secret]
	*outsideWorld
}

// A step is called when an app or one of its Secrets has changed. app is nil if
// the app was deleted.
type step func(ctx context.Context, s *shop, key reconcile.Key, app *corev1.ConfigMap) error

// program is the program of a case.
type program = func(*reconciletest.Env) error

// run returns the program that calls a step for each app. newStep makes the
// step when the program starts, so a restart of the program loses the step's
// memory. triggers are added to the trigger for the apps' Secrets.
func run(newStep func() step, triggers ...func(*shop) reconcile.Trigger) program {
	return func(env *reconciletest.Env) error {
		s, take := &shop{client: env.Client()}, newStep()
		s.outsideWorld, _ = env.Outside().(*outsideWorld)
		s.apps = informer.For(s.client.CoreV1().ConfigMaps("default"), &informer.Options{LabelSelector: "app"})
		s.secrets = informer.For(s.client.CoreV1().Secrets("default"), nil)
		reconcileApp := func(ctx context.Context, q reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			app, _ := q.Object()
			return reconcile.Result{}, take(ctx, s, q.Key, app)
		}
		o := &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(s.secrets)}}
		for _, trigger := range triggers {
			o.Triggers = append(o.Triggers, trigger(s))
		}
		c, err := reconcile.New("shop", s.apps, reconcile.Func[*corev1.ConfigMap](reconcileApp), o)
		if err != nil {
			return err
		}
		return c.Run(env.Context())
	}
}

// stateless returns a program that calls s, a step without a memory of earlier
// reconciles. triggers are the same as in run.
func stateless(s step, triggers ...func(*shop) reconcile.Trigger) program {
	return run(func() step { return s }, triggers...)
}

// outsideWorld is the state outside the cluster.
type outsideWorld struct {
	mu      sync.Mutex // guards the fields below
	charges []string
	mails   []string
	buckets map[string]bool
}

// charge charges a customer. The bank does so once for each token, and for each
// call without a token.
func (o *outsideWorld) charge(token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.charges {
		if t == token && token != "" {
			return
		}
	}
	o.charges = append(o.charges, token)
}

func (o *outsideWorld) mail(recipient string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mails = append(o.mails, recipient)
}

func (o *outsideWorld) createBucket(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buckets == nil {
		o.buckets = map[string]bool{}
	}
	o.buckets[name] = true
}

// errNoBucket is the error of deleteBucket for a bucket that does not exist.
var errNoBucket = errors.New("no such bucket")

func (o *outsideWorld) deleteBucket(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.buckets[name] {
		return errNoBucket
	}
	delete(o.buckets, name)
	return nil
}

// owned returns the metadata of an object that an app owns.
func owned(app *corev1.ConfigMap, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: app.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(app, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
	}}
}
