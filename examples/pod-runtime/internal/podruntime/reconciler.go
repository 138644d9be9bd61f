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

// lateCache is when to look again if the server knows more than a cache; the
// news comes first, usually.
const lateCache = time.Second

type (
	request = reconcile.Request[*corev1.ConfigMap]
	result  = reconcile.Result
)

// reconciler keeps one ledger at a time.
type reconciler struct {
	client  kubernetes.Interface
	pods    *informer.Informer[*corev1.Pod]
	options Options
	kept    sync.Map // the Ledger of each key, as this process has written it
}

// Reconcile brings the ledger of the request up to date.
func (r *reconciler) Reconcile(ctx context.Context, request request) (result, error) {
	current, exists := request.Object()
	if exists && current.Labels[managedByKey] != Name {
		r.warn(current)
		return result{}, nil
	}
	last, err := r.last(request.Key, current)
	if err != nil {
		return result{}, reconcile.Terminal(fmt.Errorf("ConfigMap %q: %w: restore it, or delete it to begin at zero",
			request.Key, err))
	}
	next, err := r.nextLedger(ctx, request.Key.Namespace, last)
	if err != nil {
		return result{}, err
	}
	due := time.Unix(last.At, 0).Add(r.options.Period)
	if maps.Equal(next.Pods, last.Pods) && (!last.running() || time.Now().Before(due)) {
		next = last // nothing that cannot wait
	}
	again, err := r.write(ctx, request.Key, current, next)
	if err == nil && again == (result{}) && next.running() {
		again = reconcile.After(time.Until(time.Unix(next.At, 0).Add(r.options.Period)))
	}
	return again, err
}

// last returns the ledger to go on from: the one on the server, unless this
// process remembers that it has been further, or that this write was another.
func (r *reconciler) last(key reconcile.Key, current *corev1.ConfigMap) (Ledger, error) {
	value, _ := r.kept.Load(key)
	kept, remembered := value.(Ledger)
	if current == nil {
		return kept, nil
	}
	read, err := parse(current.Data)
	if remembered && (err != nil || read.Write <= kept.Write) {
		return kept, nil
	}
	return read, err
}

// nextLedger asks the server for the Pods if those of the cache are others than
// those of the ledger.
func (r *reconciler) nextLedger(ctx context.Context, namespace string, last Ledger) (Ledger, error) {
	tolerance := 2 * r.options.Period
	next := last.advance(r.pods.Snapshot().Namespace(namespace), time.Now(), tolerance)
	if maps.Equal(next.Pods, last.Pods) {
		return next, nil
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
	return last.advance(pods, time.Now(), tolerance), nil
}

// write brings the ConfigMap up to the ledger. A result other than zero
// means that it could not yet.
func (r *reconciler) write(
	ctx context.Context, key reconcile.Key, current *corev1.ConfigMap, next Ledger,
) (result, error) {
	if current == nil && next.Write == 0 {
		return result{}, nil // no Pod has ever run here
	}
	data, err := next.data()
	if err != nil {
		return result{}, err
	}
	if current == nil {
		return r.create(ctx, key, next, data)
	}
	_, err = patch.Merge(ctx, r.client.CoreV1().ConfigMaps, current,
		&patch.Options{Lock: true}, func(edit *corev1.ConfigMap) {
			edit.Data, edit.BinaryData = data, nil
		})
	if err == nil {
		r.kept.Store(key, next)
	}
	return result{}, err
}

func (r *reconciler) create(
	ctx context.Context, key reconcile.Key, next Ledger, data map[string]string,
) (result, error) {
	_, err := r.client.CoreV1().ConfigMaps(key.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{managedByKey: Name},
		},
		Data: data,
	}, metav1.CreateOptions{FieldManager: Name})
	switch {
	case patch.IsStale(err): // it exists
		return reconcile.After(lateCache), nil // whose it is, the cache will tell
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause),
		names.IsNotFound(err, corev1.Resource("namespaces"), key.Namespace):
		r.kept.Delete(key) // the ledger goes with the namespace
		return result{}, nil
	case err != nil:
		return result{}, fmt.Errorf("creating ConfigMap %q: %w", key, err)
	}
	r.kept.Store(key, next)
	return result{}, nil
}

func (r *reconciler) warn(current *corev1.ConfigMap) {
	if r.options.Events != nil {
		r.options.Events.Eventf(current, nil, corev1.EventTypeWarning, "NameTaken", "Reconcile",
			"ConfigMap %s is not managed by %s: it is left alone; delete it, or give it the label %s=%s",
			Name, Name, managedByKey, Name)
	}
}
