// Command homeostat is an operator of Apps. An App refers to Secrets and
// ConfigMaps, and owns a Deployment, a Service and a Secret.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/proof/bench/references/app"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/patch/children"
	"github.com/homeostat/homeostat/reconcile"
)

const managedBy = "app.kubernetes.io/managed-by"

// program is the operator, with its flags.
type program struct {
	whole, own bool
	threshold  int
	done       app.Done
}

func main() {
	p := &program{}
	os.Exit(operator.Program{
		Name: "bench",
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&p.whole, "all", false, "cache all Secrets and ConfigMaps")
			fs.BoolVar(&p.own, "own", false, "own a Deployment, a Service and a Secret")
			fs.IntVar(&p.threshold, "above", 0, "references in a namespace above which it is watched; 0: the default")
			fs.IntVar(&p.done.Want, "apps", 0, "how many Apps there are")
		},
		Setup: p.setup,
	}.Main(os.Args[1:], os.Stderr))
}

// reconciler reconciles Apps.
type reconciler struct {
	*program

	secret      func(reconcile.Key) (*corev1.Secret, bool)
	configMap   func(reconcile.Key) (*corev1.ConfigMap, bool)
	deployments *children.Set[*appsv1.Deployment]
	services    *children.Set[*corev1.Service]
	secrets     *children.Set[*corev1.Secret]
}

func (p *program) setup(env operator.Env) ([]*reconcile.Controller, error) {
	kind, err := cluster.NewKind[*app.App, *app.AppList](
		env.Cluster, app.GroupVersion.WithResource("apps"), app.AddToScheme)
	if err != nil {
		return nil, err
	}
	apps := informer.ForNamespaces(kind.In, nil)
	r, options := &reconciler{program: p}, env.Options()
	if p.whole {
		options.Triggers = r.cacheAll(env, apps)
	} else {
		options.Triggers = r.cacheReferences(env)
	}
	if p.own {
		options.Triggers = append(options.Triggers, r.ownThree(env, kind)...)
	}
	go app.Answer()
	c, err := reconcile.New("apps", apps, r, options)
	return []*reconcile.Controller{c}, err
}

func (r *reconciler) cacheReferences(env operator.Env) []reconcile.Trigger {
	client := env.Cluster.Client().CoreV1()
	secrets := informer.Referenced(client.Secrets, &informer.Options{WatchNamespaceAbove: r.threshold})
	configMaps := informer.Referenced(client.ConfigMaps, &informer.Options{WatchNamespaceAbove: r.threshold})
	r.secret, r.configMap = secrets.Get, configMaps.Get
	return []reconcile.Trigger{
		reconcile.References(secrets, secretsOf),
		reconcile.References(configMaps, func(a *app.App) []reconcile.Key { return []reconcile.Key{configMapOf(a)} }),
	}
}

// cacheAll returns the triggers of a program that does not use
// informer.Referenced. It caches all Secrets and ConfigMaps, and needs an index
// for each kind.
func (r *reconciler) cacheAll(env operator.Env, apps *informer.Informer[*app.App]) []reconcile.Trigger {
	client := env.Cluster.Client().CoreV1()
	secrets, configMaps := informer.For(client.Secrets(""), nil), informer.For(client.ConfigMaps(""), nil)
	r.secret, r.configMap = secrets.Get, configMaps.Get
	bySecret := informer.NewIndex(apps, secretsOf)
	byConfigMap := informer.NewIndex(apps, func(a *app.App) []reconcile.Key { return []reconcile.Key{configMapOf(a)} })
	return []reconcile.Trigger{
		reconcile.Mapped(secrets, func(_ context.Context, oldSecret, newSecret *corev1.Secret) ([]reconcile.Key, error) {
			return keysOf(bySecret, oldSecret, newSecret), nil
		}),
		reconcile.Mapped(configMaps, func(_ context.Context, oldMap, newMap *corev1.ConfigMap) ([]reconcile.Key, error) {
			return keysOf(byConfigMap, oldMap, newMap), nil
		}),
	}
}

func (r *reconciler) ownThree(env operator.Env, kind *cluster.Kind[*app.App, *app.AppList]) []reconcile.Trigger {
	client := env.Cluster.Client()
	mine := &informer.Options{LabelSelector: managedBy + "=bench"}
	deployments := informer.For(client.AppsV1().Deployments(""), mine)
	services := informer.For(client.CoreV1().Services(""), mine)
	secrets := informer.For(client.CoreV1().Secrets(""), &informer.Options{LabelSelector: mine.LabelSelector, Name: "own"})
	owner, o := app.GroupVersion.WithKind("App"), &children.Options{Mark: map[string]string{managedBy: "bench"}}
	r.deployments = children.New(owner, kind.In, deployments, client.AppsV1().Deployments, o)
	r.services = children.New(owner, kind.In, services, client.CoreV1().Services, o)
	r.secrets = children.New(owner, kind.In, secrets, client.CoreV1().Secrets, o)
	return []reconcile.Trigger{reconcile.Owned(deployments), reconcile.Owned(services), reconcile.Owned(secrets)}
}

// Reconcile reads the objects to which an App refers. If all of them exist and
// own is set, it writes the objects that the App owns.
func (r *reconciler) Reconcile(ctx context.Context, q reconcile.Request[*app.App]) (reconcile.Result, error) {
	a, ok := q.Object()
	if !ok {
		return reconcile.Result{}, nil
	}
	sum := 0
	for _, key := range secretsOf(a) {
		secret, ok := r.secret(key)
		if !ok {
			return reconcile.Result{}, nil
		}
		sum += len(secret.Data)
	}
	if key := configMapOf(a); key.Name != "" {
		configMap, ok := r.configMap(key)
		if !ok {
			return reconcile.Result{}, nil
		}
		sum += len(configMap.Data)
	}
	if r.own {
		if err := r.keep(ctx, a, fmt.Sprint(sum)); err != nil {
			return reconcile.Result{}, err
		}
	}
	r.done.Add(q.Key)
	return reconcile.Result{}, nil
}

func (r *reconciler) keep(ctx context.Context, a *app.App, sum string) error {
	deployment := children.Child[*appsv1.Deployment]{Name: a.Name, Edit: func(d *appsv1.Deployment) {
		d.Spec.Selector = metav1.SetAsLabelSelector(map[string]string{"app": a.Name})
		metav1.SetMetaDataLabel(&d.Spec.Template.ObjectMeta, "app", a.Name)
		metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, "sum", sum)
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{})[:1]
		d.Spec.Template.Spec.Containers[0].Name, d.Spec.Template.Spec.Containers[0].Image = "web", "web"
	}}
	_, err := r.deployments.Ensure(ctx, a, deployment)
	_, err2 := r.services.Ensure(ctx, a, children.Child[*corev1.Service]{Name: a.Name, Edit: func(s *corev1.Service) {
		s.Spec.Selector = map[string]string{"app": a.Name}
		s.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
	}})
	_, err3 := r.secrets.Ensure(ctx, a, children.Child[*corev1.Secret]{Name: a.Name, Edit: func(s *corev1.Secret) {
		s.Data = map[string][]byte{"sum": []byte(sum)}
	}})
	return errors.Join(err, err2, err3)
}

func secretsOf(a *app.App) (keys []reconcile.Key) {
	for _, name := range a.Spec.Secrets {
		keys = append(keys, reconcile.Key{Namespace: a.Namespace, Name: name})
	}
	return keys
}

func configMapOf(a *app.App) reconcile.Key {
	return reconcile.Key{Namespace: a.Namespace, Name: a.Spec.ConfigMap}
}

// keysOf returns the keys of the Apps that refer to an object. oldObject is nil
// for an added object, and newObject for a deleted one.
func keysOf[O metav1.Object](
	x *informer.Index[*app.App, reconcile.Key], oldObject, newObject O,
) (keys []reconcile.Key) {
	object := newObject
	if any(newObject) == any(*new(O)) {
		object = oldObject
	}
	for a := range x.Get(reconcile.Key{Namespace: object.GetNamespace(), Name: object.GetName()}) {
		keys = append(keys, reconcile.Key{Namespace: a.Namespace, Name: a.Name})
	}
	return keys
}
