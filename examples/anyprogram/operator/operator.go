// Package operator is an operator that uses controller-runtime. For each
// ConfigMap with the label "copy" it creates a Secret of the same name.
package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Label marks the ConfigMaps to copy.
const Label = "copy"

// Start runs the operator until ctx ends. The operator's main calls it after it
// has read the flags into o.
func Start(ctx context.Context, config *rest.Config, o ctrl.Options) error {
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := (&Reconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	return mgr.Start(ctx)
}

// Reconciler makes the Secrets equal to the ConfigMaps that they are copied
// from.
type Reconciler struct{ client.Client }

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(r)
}

// Reconcile creates, updates or deletes the copy of one ConfigMap.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // the garbage collector deletes its Secret
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}}
	if _, marked := source.Labels[Label]; !marked || source.DeletionTimestamp != nil {
		return ctrl.Result{}, r.drop(ctx, &source, secret)
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		secret.Data = map[string][]byte{}
		for k, v := range source.Data {
			secret.Data[k] = []byte(v)
		}
		return controllerutil.SetControllerReference(&source, secret, r.Scheme())
	})
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) { // the cache is behind
		return ctrl.Result{}, fmt.Errorf("copying ConfigMap %s, retrying: %w", req, err)
	}
	return ctrl.Result{}, err
}

// drop deletes the copy of a ConfigMap that must not have one. It leaves a
// Secret alone that source does not control.
func (r *Reconciler) drop(ctx context.Context, source *corev1.ConfigMap, secret *corev1.Secret) error {
	if err := r.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(secret, source) {
		return nil
	}
	return client.IgnoreNotFound(r.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}))
}
