package crpatch_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat/homeostat/controllerruntime/crpatch"
	"github.com/homeostat/homeostat/patch"
)

const (
	teamLabel = "example.com/team"
	toldTeam  = "example.com/told-team"
	mapName   = "team"
)

// Teams writes the team of each namespace into a ConfigMap of the namespace.
type Teams struct {
	Client client.Client // mgr.GetClient()
	Live   client.Reader // mgr.GetAPIReader()
}

// SetupWithManager adds the reconciler to a manager.
func (r *Teams) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.Namespace{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

// Reconcile sends only the differences. A refused write, patch.IsStale, is an
// error here: controller-runtime tries again, when its cache is newer.
func (r *Teams) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, req.NamespacedName, &ns); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	team, isOfTeam := ns.Labels[teamLabel]
	if !isOfTeam || ns.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	key := client.ObjectKey{Namespace: ns.Name, Name: mapName}
	var cached corev1.ConfigMap
	if err := r.Client.Get(ctx, key, &cached); apierrors.IsNotFound(err) {
		cached = corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	} else if err != nil {
		return ctrl.Result{}, err
	}
	_, err := patch.Ensure(ctx, crpatch.Of[corev1.ConfigMap](r.Client, r.Live), &cached, nil, func(m *corev1.ConfigMap) {
		m.Data = map[string]string{"team": team}
		owner := metav1.NewControllerRef(&ns, corev1.SchemeGroupVersion.WithKind("Namespace"))
		m.OwnerReferences = []metav1.OwnerReference{*owner}
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	// region merge
	_, err = patch.Merge(ctx, crpatch.Of[corev1.Namespace](r.Client, r.Live), &ns, nil, func(ns *corev1.Namespace) {
		metav1.SetMetaDataAnnotation(&ns.ObjectMeta, toldTeam, team)
	})
	// endregion
	return ctrl.Result{}, err
}
