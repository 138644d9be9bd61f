package defaults

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// A client writes one kind of output in one namespace.
type client[T informer.Object] interface {
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
	patch.Client[T]
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// A child is one output in one namespace, with its cache and its desired state.
type child[T informer.Object] struct {
	kind    string
	clients func(namespace string) client[T]
	cache   *informer.Informer[T]
	want    T
	inShape func(current, want T) bool
	shape   func(edit, want T) // sets the spec of edit to the spec of want
}

func (r *reconciler) quotaOf(_ *corev1.Namespace) child[*corev1.ResourceQuota] {
	return child[*corev1.ResourceQuota]{
		kind: "ResourceQuota", cache: r.quotas, want: r.want.quota, inShape: quotaInShape,
		clients: func(namespace string) client[*corev1.ResourceQuota] {
			return r.client.CoreV1().ResourceQuotas(namespace)
		},
		shape: func(edit, want *corev1.ResourceQuota) { edit.Spec = *want.Spec.DeepCopy() },
	}
}

func (r *reconciler) limitsOf(_ *corev1.Namespace) child[*corev1.LimitRange] {
	return child[*corev1.LimitRange]{
		kind: "LimitRange", cache: r.limits, want: r.want.limits, inShape: limitsInShape,
		clients: func(namespace string) client[*corev1.LimitRange] { return r.client.CoreV1().LimitRanges(namespace) },
		shape:   func(edit, want *corev1.LimitRange) { edit.Spec = *want.Spec.DeepCopy() },
	}
}

// ensure brings the child of a namespace to its desired state. outcome is not
// zero if the child must be reconciled again later. foreign is true if an
// object of another client has the child's name.
func (c child[T]) ensure(ctx context.Context, namespace string) (outcome result, foreign bool, err error) {
	key := reconcile.Key{Namespace: namespace, Name: Name}
	current, exists := c.cache.Get(key)
	switch {
	case !exists:
		outcome, err = c.create(ctx, key)
		return outcome, false, err
	case !isOurs(current):
		return result{}, true, nil
	case c.inShape(current, c.want):
		return result{}, false, nil
	}
	_, err = patch.Merge(ctx, c.clients, current,
		&patch.Options{Lock: true}, func(edit T) {
			annotations := map[string]string{}
			maps.Copy(annotations, edit.GetAnnotations())
			annotations[policyKey] = c.want.GetAnnotations()[policyKey]
			edit.SetAnnotations(annotations)
			c.shape(edit, c.want)
		})
	return result{}, false, err
}

func (c child[T]) create(ctx context.Context, key reconcile.Key) (result, error) {
	object, ok := c.want.DeepCopyObject().(T)
	if !ok {
		return result{}, fmt.Errorf("creating %s %q: the object's DeepCopyObject method returns a different type",
			c.kind, key)
	}
	object.SetNamespace(key.Namespace)
	_, err := c.clients(key.Namespace).Create(ctx, object, metav1.CreateOptions{FieldManager: Name})
	switch {
	case patch.IsStale(err): // the object already exists
		return reconcile.After(lateCache), nil // the cache will show its owner
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause),
		names.IsNotFound(err, corev1.Resource("namespaces"), key.Namespace):
		return result{}, nil // the namespace is terminating or deleted
	case err != nil:
		return result{}, fmt.Errorf("creating %s %q: %w", c.kind, key, err)
	}
	return result{}, nil
}

// remove deletes the child if it is ours and has not changed since it was read.
func (c child[T]) remove(ctx context.Context, namespace string) error {
	key := reconcile.Key{Namespace: namespace, Name: Name}
	current, exists := c.cache.Get(key)
	if !exists || !isOurs(current) {
		return nil
	}
	return patch.Delete(ctx, c.clients, current, &patch.Options{Lock: true})
}
