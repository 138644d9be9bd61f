package zoo

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

const classLie = "status that is not true"

func lies() []Specimen {
	stamps, works := release(false), release(true)
	return []Specimen{{
		Name: "observedGeneration of another copy than the work", Class: classLie, World: released,
		Options: reconciletest.Options{SkipDrift: true},
		Bug:     ofDeployments(stamps), Twin: ofDeployments(works), Found: "always",
		SDKBug: ofDeploymentsSDK(stamps), SDKTwin: ofDeploymentsSDK(works), SDKFound: "always",
	}}
}

// work handles one cached Deployment.
type work func(ctx context.Context, client kubernetes.Interface, cached *appsv1.Deployment) error

// release returns a function that records the image of a Deployment in a
// Secret, and the observed generation in the status. It writes the status to a
// fresh copy of the Deployment, which avoids a conflict. If worksOnIt is true,
// it also takes the image from the fresh copy, and otherwise from the cached
// copy. The cached copy may be older. Then the status names a generation whose
// image has not been recorded.
func release(worksOnIt bool) work {
	return func(ctx context.Context, client kubernetes.Interface, cached *appsv1.Deployment) error {
		fresh, err := client.AppsV1().Deployments(cached.Namespace).Get(ctx, cached.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		noted := cached
		if worksOnIt {
			noted = fresh
		}
		if err := noteImage(ctx, client, noted); err != nil || fresh.Status.ObservedGeneration == fresh.Generation {
			return err
		}
		fresh.Status.ObservedGeneration = fresh.Generation
		_, err = client.AppsV1().Deployments(cached.Namespace).UpdateStatus(ctx, fresh, metav1.UpdateOptions{})
		return err
	}
}

const imageNote = "image"

func noteImage(ctx context.Context, client kubernetes.Interface, d *appsv1.Deployment) error {
	secrets, image := client.CoreV1().Secrets(d.Namespace), imageOf(d)
	note, err := secrets.Get(ctx, d.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: d.Name, Labels: map[string]string{labelOf: d.Name}, Annotations: map[string]string{imageNote: image},
		}}, metav1.CreateOptions{})
	case err == nil && note.Annotations[imageNote] != image:
		metav1.SetMetaDataAnnotation(&note.ObjectMeta, imageNote, image)
		_, err = secrets.Update(ctx, note, metav1.UpdateOptions{})
	}
	return err
}

func imageOf(d *appsv1.Deployment) string { return d.Spec.Template.Spec.Containers[0].Image }

func ofDeployments(do work) Program {
	return func(env *reconciletest.Env) error {
		p := newPlain(env.Client(), stateless(nil))
		p.apps = informers.NewSharedInformerFactory(p.client, 0).Apps().V1().Deployments().Informer()
		p.look = func(ctx context.Context, name types.NamespacedName) error {
			obj, exists, err := p.apps.GetStore().GetByKey(name.String())
			if err != nil || !exists {
				return err
			}
			return do(ctx, p.client, obj.(*appsv1.Deployment))
		}
		env.Cache("deployments.apps", p.apps.GetStore().List)
		env.Cache("secrets", p.secretCache.GetStore().List)
		p.handle(p.apps, p.appHandler())
		p.handle(p.secretCache, p.secretHandler())
		return p.run(env.Context(), p.synced...)
	}
}

func ofDeploymentsSDK(do work) Program {
	return func(env *reconciletest.Env) error {
		client := env.Client()
		reconcileDeployment := func(ctx context.Context, r reconcile.Request[*appsv1.Deployment]) (reconcile.Result, error) {
			d, ok := r.Object()
			if !ok {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, do(ctx, client, d)
		}
		secrets := informer.For(client.CoreV1().Secrets(""), nil)
		c, err := reconcile.New("deployments", informer.For(client.AppsV1().Deployments(""), nil),
			reconcile.Func[*appsv1.Deployment](reconcileDeployment),
			&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(secrets, appOf)}})
		if err != nil {
			return err
		}
		return c.Run(env.Context())
	}
}

// released returns a case in which the image of a Deployment is changed. It
// checks at all times that the image of the observed generation has been
// recorded.
func released() *reconciletest.Case {
	labels := map[string]string{"run": "web"}
	return &reconciletest.Case{
		Objects: []runtime.Object{&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
				},
			},
		}},
		Workload: []reconciletest.Step{reconciletest.Patch("deployments.apps", namespace+"/web",
			`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)},
		Always: observedIsDone,
	}
}

func observedIsDone(w *reconciletest.World) error {
	deployments, err := reconciletest.List[appsv1.Deployment](w, "deployments.apps")
	if err != nil {
		return err
	}
	notes, err := reconciletest.List[corev1.Secret](w, "secrets")
	if err != nil {
		return err
	}
	for _, d := range deployments {
		if d.Status.ObservedGeneration != d.Generation {
			continue
		}
		var noted string
		for _, s := range notes {
			if s.Name == d.Name {
				noted = s.Annotations[imageNote]
			}
		}
		if noted != imageOf(&d) {
			return fmt.Errorf("the Secret records image %q, but Deployment %s has image %q and observedGeneration %d",
				noted, d.Name, imageOf(&d), d.Generation)
		}
	}
	return nil
}
