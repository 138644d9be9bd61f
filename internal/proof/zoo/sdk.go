package zoo

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// sdk is a controller like plain, written with Homeostat.
type sdk struct {
	wiring
	client     kubernetes.Interface
	world      any
	byApp      *informer.Index[*corev1.Secret, string]
	reconciles Reconcile
}

func onSDK(w wiring) Program {
	return func(env *reconciletest.Env) error {
		return runSDK(env, env.Client(), w, nil)
	}
}

func runSDK(env *reconciletest.Env, client kubernetes.Interface, w wiring, leader reconcile.Leader) error {
	apps := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: labelApp})
	secrets := informer.For(client.CoreV1().Secrets(""), nil)
	s := &sdk{
		wiring: w, client: client, world: env.Outside(), reconciles: w.reconcile(),
		byApp: informer.NewIndex(secrets, appsOf),
	}
	c, err := reconcile.New("apps", apps, s, &reconcile.Options{
		Leader: leader, Triggers: []reconcile.Trigger{reconcile.Mapped(secrets, appOf)},
	})
	if err != nil {
		return err
	}
	return c.Run(env.Context())
}

func appsOf(s *corev1.Secret) []string { return []string{s.Labels[labelOf], ""} }

// appOf returns the key of the App to which a Secret belongs.
func appOf(_ context.Context, old, s *corev1.Secret) ([]reconcile.Key, error) {
	if s == nil {
		s = old
	}
	return []reconcile.Key{{Namespace: namespace, Name: s.Labels[labelOf]}}, nil
}

func (s *sdk) Reconcile(
	ctx context.Context, r reconcile.Request[*corev1.ConfigMap],
) (reconcile.Result, error) {
	app, ok := r.Object()
	switch {
	case !ok && s.gone != nil:
		return reconcile.Result{}, s.gone(ctx, s, types.NamespacedName(r.Key))
	case !ok, app.DeletionTimestamp != nil && !s.deleting:
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, s.reconciles(ctx, s, app)
}

func (s *sdk) outsideState() any { return s.world }

func (s *sdk) kube() kubernetes.Interface { return s.client }

func (s *sdk) secrets(app string) []*corev1.Secret { return slices.Collect(s.byApp.Get(app)) }

func (s *sdk) create(ctx context.Context, secret *corev1.Secret) error {
	if secret.Name == "" { // patch.Ensure needs a name
		made, err := s.client.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
		if err == nil {
			reconcile.Wrote(ctx, made)
		}
		return err
	}
	_, err := patch.Ensure(ctx, s.client.CoreV1().Secrets, secret, nil, func(*corev1.Secret) {})
	return err
}

func (s *sdk) remove(ctx context.Context, secret *corev1.Secret) error {
	return patch.Delete(ctx, s.client.CoreV1().Secrets, secret, nil)
}

func (s *sdk) annotate(ctx context.Context, app *corev1.ConfigMap, key, value string) error {
	_, err := patch.Merge(ctx, s.client.CoreV1().ConfigMaps, app, nil,
		func(edit *corev1.ConfigMap) { metav1.SetMetaDataAnnotation(&edit.ObjectMeta, key, value) })
	return err
}

func (s *sdk) finalize(ctx context.Context, app *corev1.ConfigMap, wanted bool) error {
	_, err := patch.Merge(ctx, s.client.CoreV1().ConfigMaps, app, nil,
		func(edit *corev1.ConfigMap) {
			edit.Finalizers = slices.DeleteFunc(edit.Finalizers, func(f string) bool { return f == finalizer })
			if wanted {
				edit.Finalizers = append(edit.Finalizers, finalizer)
			}
		})
	return err
}
