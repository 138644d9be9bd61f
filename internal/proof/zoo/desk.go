package zoo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Reconcile handles one cached App, and writes its outputs. An error is retried
// with back-off.
type Reconcile func(ctx context.Context, d Desk, app *corev1.ConfigMap) error

// gone is a reconcile for an App that does not exist.
type gone func(ctx context.Context, d Desk, name types.NamespacedName) error

// Desk provides the tools of a reconcile: reads from the cache, and the usual
// writes of the harness.
type Desk interface { //nolint:interfacebloat // each is for one kind of reconcile
	// kube returns the client for all other requests.
	kube() kubernetes.Interface
	// outside returns the state outside of the cluster:
	// reconciletest.Case.Outside.
	outside() any
	// secrets are the cached Secrets that are labelled as an App's; all of them
	// for "".
	secrets(app string) []*corev1.Secret
	// create makes a Secret.
	create(ctx context.Context, s *corev1.Secret) error
	// remove deletes a Secret that was read.
	remove(ctx context.Context, s *corev1.Secret) error
	// annotate sets an annotation of an App that was read, if it has changed.
	annotate(ctx context.Context, app *corev1.ConfigMap, key, value string) error
	// finalize adds the finalizer, or removes it.
	finalize(ctx context.Context, app *corev1.ConfigMap, on bool) error
}

// right is a correct reconcile. Each step checks whether it is done, and ready
// is the last step.
func right(ctx context.Context, d Desk, app *corev1.ConfigMap) error {
	if _, there := find(d.secrets(app.Name), app.Name+"-key"); !there {
		if err := d.create(ctx, newKey(app)); err != nil {
			return err
		}
	}
	return d.annotate(ctx, app, ready, "yes")
}
