package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Reconcile reconciles one cached App, and writes its outputs with d. An error
// is retried with back-off.
type Reconcile func(ctx context.Context, d Desk, app *corev1.ConfigMap) error

// gone handles the name of an App that is not in the cache.
type gone func(ctx context.Context, d Desk, name types.NamespacedName) error

// Desk provides the tools of a reconcile: reads from the cache, and the usual
// writes of the harness.
type Desk interface { //nolint:interfacebloat // each is for one kind of reconcile
	// kube returns the client for all other requests.
	kube() kubernetes.Interface
	// outsideState returns the state outside the cluster, which is
	// reconciletest.Case.Outside.
	outsideState() any
	// secrets returns the cached Secrets with the label of the named App. For
	// the empty name it returns all of them.
	secrets(app string) []*corev1.Secret
	// create creates a Secret.
	create(ctx context.Context, s *corev1.Secret) error
	// remove deletes a Secret that was read from the cache.
	remove(ctx context.Context, s *corev1.Secret) error
	// annotate sets an annotation of an App that was read from the cache,
	// unless the annotation already has this value.
	annotate(ctx context.Context, app *corev1.ConfigMap, key, value string) error
	// finalize adds the finalizer to an App if it is wanted, and removes it
	// otherwise.
	finalize(ctx context.Context, app *corev1.ConfigMap, wanted bool) error
}

// right is a correct reconcile. It takes each step only if the step is needed,
// and reports ready last.
func right(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if _, ok := find(d.secrets(app.Name), app.Name+"-key"); !ok {
		if err := d.create(ctx, newKey(app)); err != nil {
			return err
		}
	}
	return d.annotate(ctx, app, ready, "yes")
}
