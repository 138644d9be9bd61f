package defaults

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// lateCache is the delay before the next reconcile if the server has an object
// that the cache does not have yet. Usually the event of the object arrives
// earlier and causes the reconcile.
const lateCache = time.Second

type (
	request = reconcile.Request[*corev1.Namespace]
	result  = reconcile.Result
)

// reconciler reconciles namespaces. Calls for different namespaces may overlap.
type reconciler struct {
	client   kubernetes.Interface
	policy   *Policy
	want     outputs
	quotas   *informer.Informer[*corev1.ResourceQuota]
	limits   *informer.Informer[*corev1.LimitRange]
	recorder events.EventRecorder
}

// Reconcile applies the policy to the request's namespace.
func (r *reconciler) Reconcile(ctx context.Context, request request) (result, error) {
	namespace, ok := request.Object()
	if !ok || namespace.DeletionTimestamp != nil {
		return result{}, nil
	}
	quota, limits := r.quotaOf(namespace), r.limitsOf(namespace)
	if r.policy.exempts(namespace) {
		return result{}, errors.Join(quota.remove(ctx, namespace.Name), limits.remove(ctx, namespace.Name))
	}
	ownerErr := r.setOwner(ctx, namespace)
	laterQuota, foreignQuota, quotaErr := quota.ensure(ctx, namespace.Name)
	laterLimits, foreignLimits, limitsErr := limits.ensure(ctx, namespace.Name)
	r.warn(namespace, quota.kind, foreignQuota)
	r.warn(namespace, limits.kind, foreignLimits)
	if laterQuota == (result{}) {
		laterQuota = laterLimits
	}
	return laterQuota, errors.Join(ownerErr, quotaErr, limitsErr)
}

// warn records an Event on the namespace if foreign is true. It says that an
// object of this kind has the name of our object, but is not ours.
func (r *reconciler) warn(namespace *corev1.Namespace, kind string, foreign bool) {
	if foreign && r.recorder != nil {
		r.recorder.Eventf(namespace, nil, corev1.EventTypeWarning, "NameTaken", "Reconcile",
			"%s %s is not managed by %s: it is left alone; delete it, or give it the label %s=%s",
			kind, Name, Name, managedByKey, Name)
	}
}

// setOwner sets the default owner of a namespace without an owner, if the
// namespace has not changed since it was read.
func (r *reconciler) setOwner(ctx context.Context, namespace *corev1.Namespace) error {
	if namespace.Annotations[OwnerKey] != "" {
		return nil
	}
	_, err := patch.Merge(ctx, patch.ClusterScoped(r.client.CoreV1().Namespaces()), namespace,
		&patch.Options{Lock: true}, func(edit *corev1.Namespace) {
			metav1.SetMetaDataAnnotation(&edit.ObjectMeta, OwnerKey, r.policy.Owner)
		})
	return err
}
