package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// Name is the controller's name, its field manager, and its mark on the
// ConfigMap.
const (
	Name         = "configmap-from-crs"
	managedByKey = "app.kubernetes.io/managed-by"
)

// lateCache is the delay before the next reconcile if the server has newer
// objects than the cache. Usually their events arrive earlier and cause the
// reconcile.
const lateCache = time.Second

type (
	request = reconcile.Request[*corev1.ConfigMap]
	result  = reconcile.Result
)

// reconciler reconciles ConfigMaps. Calls for different ConfigMaps may overlap.
type reconciler struct {
	client   kubernetes.Interface
	settings func(namespace string) api.Settings
	inputs   *informer.Informer[*api.Setting]
}

// Reconcile brings the ConfigMap of the request to the state that its Settings
// define, and reports the result in the Settings.
func (r *reconciler) Reconcile(ctx context.Context, request request) (result, error) {
	data, inputs := render(r.inputs.Snapshot().Namespace(request.Key.Namespace))
	current, exists := request.Object()
	if exists && current.Labels[managedByKey] != Name {
		refuse(inputs, reasonForeign, fmt.Sprintf(
			"ConfigMap %q exists and is not managed by %s: delete it, or give it the label %s=%s",
			current.Name, Name, managedByKey, Name))
		return result{}, r.report(ctx, inputs)
	}
	outcome, err := r.publish(ctx, request.Key, current, data, len(inputs))
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		refuse(inputs, reasonRefused, err.Error())
		return result{}, errors.Join(reconcile.Terminal(err), r.report(ctx, inputs))
	}
	if err != nil || outcome != (result{}) {
		return outcome, err
	}
	return result{}, r.report(ctx, inputs)
}

// publish creates or updates the ConfigMap. It deletes the ConfigMap if inputs,
// the number of Settings, is 0. It also deletes an immutable ConfigMap that has
// other data, because only a new one can have the new data. It returns a result
// other than zero if the ConfigMap must be reconciled again later.
func (r *reconciler) publish(
	ctx context.Context, key reconcile.Key, current *corev1.ConfigMap, data map[string]string, inputs int,
) (result, error) {
	switch {
	case current == nil && inputs == 0:
		return result{}, nil
	case current == nil:
		return r.create(ctx, key, data)
	case inputs == 0:
		return r.retire(ctx, current)
	case current.Immutable != nil && *current.Immutable && (!maps.Equal(current.Data, data) || current.BinaryData != nil):
		return result{}, r.delete(ctx, current) // its deletion causes a reconcile, which creates a new one
	}
	_, err := patch.Merge(ctx, r.client.CoreV1().ConfigMaps, current,
		&patch.Options{Lock: true}, func(edit *corev1.ConfigMap) {
			edit.Data, edit.BinaryData = data, nil
		})
	return result{}, err
}

func (r *reconciler) create(ctx context.Context, key reconcile.Key, data map[string]string) (result, error) {
	_, err := r.client.CoreV1().ConfigMaps(key.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{managedByKey: Name},
		},
		Data: data,
	}, metav1.CreateOptions{FieldManager: Name})
	switch {
	case patch.IsStale(err): // the ConfigMap already exists
		return reconcile.After(lateCache), nil // the cache will show its owner
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return result{}, nil // the Settings are deleted with the namespace
	case err != nil:
		return result{}, fmt.Errorf("creating ConfigMap %q: %w", key, err)
	}
	return result{}, nil
}

// retire deletes the ConfigMap if the server confirms that the namespace has no
// Settings left, apart from Settings that are being deleted. Otherwise it asks
// for another reconcile. It does not rely on the cache, because the cache may
// be behind the server.
func (r *reconciler) retire(ctx context.Context, current *corev1.ConfigMap) (result, error) {
	rest, err := r.settings(current.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return result{}, fmt.Errorf("confirming that namespace %q has no Settings: %w", current.Namespace, err)
	}
	for i := range rest.Items {
		if rest.Items[i].DeletionTimestamp == nil {
			return reconcile.After(lateCache), nil
		}
	}
	return result{}, r.delete(ctx, current)
}

// delete deletes a ConfigMap if it has not changed since current was read.
func (r *reconciler) delete(ctx context.Context, current *corev1.ConfigMap) error {
	return patch.Delete(ctx, r.client.CoreV1().ConfigMaps, current, &patch.Options{Lock: true})
}

// report writes the new condition of each Setting into its status, unless the
// status already contains it.
func (r *reconciler) report(ctx context.Context, inputs []input) error {
	var errs []error
	for _, item := range inputs {
		_, err := patch.Status(ctx, r.settings, item.setting, nil, func(edit *api.Setting) {
			meta.SetStatusCondition(&edit.Status.Conditions, item.verdict)
		})
		if names.IsNotFound(err, schema.GroupResource{Group: api.Group, Resource: api.Resource}, item.setting.Name) {
			continue // the Setting was deleted in the meantime
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
