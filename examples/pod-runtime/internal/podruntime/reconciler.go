package podruntime

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

const managedByKey = "app.kubernetes.io/managed-by"

// lateCache is the delay before the next reconcile if the server has newer
// objects than the cache. Usually their events arrive earlier and cause the
// reconcile.
const lateCache = time.Second

type (
	request = reconcile.Request[*corev1.ConfigMap]
	result  = reconcile.Result
)

// reconciler reconciles ledgers. Calls for different ledgers may overlap.
type reconciler struct {
	client  kubernetes.Interface
	pods    *informer.Informer[*corev1.Pod]
	options Options
	written sync.Map // by key, the last Ledger that this process has written
}

// Reconcile updates the ledger of the request.
func (r *reconciler) Reconcile(ctx context.Context, request request) (result, error) {
	current, exists := request.Object()
	if exists && current.Labels[managedByKey] != Name {
		r.warn(current)
		return result{}, nil
	}
	previous, err := r.previousLedger(request.Key, current)
	if err != nil {
		return result{}, reconcile.Terminal(fmt.Errorf("ConfigMap %q: %w: restore it, or delete it to begin at zero",
			request.Key, err))
	}
	updated, err := r.nextLedger(ctx, request.Key.Namespace, previous)
	if err != nil {
		return result{}, err
	}
	due := time.Unix(previous.At, 0).Add(r.options.Period)
	if maps.Equal(updated.Pods, previous.Pods) && (!previous.running() || time.Now().Before(due)) {
		updated = previous // the update can wait
	}
	outcome, err := r.write(ctx, request.Key, current, updated)
	if err == nil && outcome == (result{}) && updated.running() {
		outcome = reconcile.After(time.Until(time.Unix(updated.At, 0).Add(r.options.Period)))
	}
	return outcome, err
}

// previousLedger returns the ledger to continue from. This is the ledger that
// this process last wrote, if the cached one is missing, unreadable or not
// newer, and otherwise the cached one.
func (r *reconciler) previousLedger(key reconcile.Key, current *corev1.ConfigMap) (Ledger, error) {
	value, _ := r.written.Load(key)
	last, remembered := value.(Ledger)
	if current == nil {
		return last, nil
	}
	read, err := parse(current.Data)
	if remembered && (err != nil || read.Write <= last.Write) {
		return last, nil
	}
	return read, err
}

// nextLedger returns the ledger after previous. It lists the Pods on the server
// if the Pods in the cache differ from the Pods in the ledger.
func (r *reconciler) nextLedger(ctx context.Context, namespace string, previous Ledger) (Ledger, error) {
	tolerance := 2 * r.options.Period
	advanced := previous.advance(r.pods.Snapshot().Namespace(namespace), time.Now(), tolerance)
	if maps.Equal(advanced.Pods, previous.Pods) {
		return advanced, nil
	}
	list, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return Ledger{}, fmt.Errorf("listing the Pods of namespace %q: %w", namespace, err)
	}
	pods := func(yield func(*corev1.Pod) bool) {
		for i := range list.Items {
			if !yield(&list.Items[i]) {
				return
			}
		}
	}
	return previous.advance(pods, time.Now(), tolerance), nil
}

// write stores the ledger in the ConfigMap. It returns a result other than zero
// if the ledger must be reconciled again later.
func (r *reconciler) write(
	ctx context.Context, key reconcile.Key, current *corev1.ConfigMap, updated Ledger,
) (result, error) {
	if current == nil && updated.Write == 0 {
		return result{}, nil // no Pod has ever run here
	}
	data, err := updated.data()
	if err != nil {
		return result{}, err
	}
	if current == nil {
		return r.create(ctx, key, updated, data)
	}
	_, err = patch.Merge(ctx, r.client.CoreV1().ConfigMaps, current,
		&patch.Options{Lock: true}, func(edit *corev1.ConfigMap) {
			edit.Data, edit.BinaryData = data, nil
		})
	if err == nil {
		r.written.Store(key, updated)
	}
	return result{}, err
}

func (r *reconciler) create(
	ctx context.Context, key reconcile.Key, updated Ledger, data map[string]string,
) (result, error) {
	_, err := r.client.CoreV1().ConfigMaps(key.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{managedByKey: Name},
		},
		Data: data,
	}, metav1.CreateOptions{FieldManager: Name})
	switch {
	case patch.IsStale(err): // the ConfigMap already exists
		return reconcile.After(lateCache), nil // the cache will show its owner
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause),
		names.IsNotFound(err, corev1.Resource("namespaces"), key.Namespace):
		r.written.Delete(key) // the ledger is deleted with the namespace
		return result{}, nil
	case err != nil:
		return result{}, fmt.Errorf("creating ConfigMap %q: %w", key, err)
	}
	r.written.Store(key, updated)
	return result{}, nil
}

func (r *reconciler) warn(current *corev1.ConfigMap) {
	if r.options.Events != nil {
		r.options.Events.Eventf(current, nil, corev1.EventTypeWarning, "NameTaken", "Reconcile",
			"ConfigMap %s is not managed by %s: it is left alone; delete it, or give it the label %s=%s",
			Name, Name, managedByKey, Name)
	}
}
