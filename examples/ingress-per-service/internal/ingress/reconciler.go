package ingress

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

type (
	request = reconcile.Request[*corev1.Service]
	result  = reconcile.Result
)

// lateCache is the delay before the next reconcile if the server has an Ingress
// that is not in the cache yet. Usually the Ingress's event arrives earlier and
// causes the reconcile.
const lateCache = time.Second

// reconciler reconciles the Ingress of each Service.
type reconciler struct {
	client    kubernetes.Interface
	services  *informer.Informer[*corev1.Service]
	ingresses *informer.Informer[*networkingv1.Ingress]
	recorder  events.EventRecorder
	options   Options

	mu     sync.Mutex // guards warned
	warned map[reconcile.Key]types.UID
}

// Reconcile brings the Ingress of the request's Service to its desired state.
func (r *reconciler) Reconcile(ctx context.Context, request request) (result, error) {
	current, exists := r.ingresses.Get(request.Key)
	service, ok := request.Object()
	switch {
	case !ok || !optedIn(service):
		r.forget(request.Key)
		if !exists || !isOurs(current) {
			return result{}, nil
		}
		return result{}, r.clean(ctx, current)
	case exists && !isOurs(current):
		r.warn(service, current)
		return result{}, nil
	}
	r.forget(request.Key)
	spec, err := specOf(service, &r.options)
	if err != nil {
		r.recorder.Eventf(service, nil, corev1.EventTypeWarning, "NoIngress", "Reconcile", "%s", err.Error())
		return result{}, reconcile.Terminal(fmt.Errorf("deriving the Ingress of Service %q: %w", request.Key, err))
	}
	switch {
	case !exists:
		return r.create(ctx, ingressOf(service, spec))
	case inShape(current, service, &spec):
		return result{}, nil
	default:
		return result{}, r.apply(ctx, current, ingressOf(service, spec))
	}
}

// create creates an Ingress. It does not use server-side apply, because that
// would overwrite an existing Ingress that the cache does not show yet. That
// Ingress may belong to another client.
func (r *reconciler) create(ctx context.Context, want *networkingv1.Ingress) (result, error) {
	_, err := r.client.NetworkingV1().Ingresses(want.Namespace).
		Create(ctx, want, metav1.CreateOptions{FieldManager: Name})
	if patch.IsStale(err) { // the Ingress already exists
		return reconcile.After(lateCache), nil
	}
	if err != nil {
		return result{}, fmt.Errorf("creating Ingress %s/%s: %w", want.Namespace, want.Name, err)
	}
	return result{}, nil
}

func (r *reconciler) apply(ctx context.Context, current, want *networkingv1.Ingress) error {
	_, err := r.client.NetworkingV1().Ingresses(want.Namespace).
		Apply(ctx, declaration(current, want), metav1.ApplyOptions{FieldManager: Name, Force: true})
	if err != nil {
		return fmt.Errorf("applying Ingress %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

// clean deletes an Ingress of ours if the server confirms that no Service wants
// it, and if the Ingress has not changed since it was read. It does not rely on
// the cache, because the cache may be behind the server. For example, the
// Service may have been created again. In that case the event of the new
// Service causes another reconcile. If many Services are deleted at once, the
// informer confirms all of the deletions with a few requests.
func (r *reconciler) clean(ctx context.Context, current *networkingv1.Ingress) error {
	if !r.services.IsDeleted(ctx, types.NamespacedName{Namespace: current.Namespace, Name: current.Name}) {
		service, ok, err := names.Live(ctx, r.client.CoreV1().Services(current.Namespace), current.Name)
		if err != nil || ok && optedIn(service) {
			return err
		}
	}
	err := r.client.NetworkingV1().Ingresses(current.Namespace).Delete(ctx, current.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &current.UID, ResourceVersion: &current.ResourceVersion},
	})
	if names.IsNotFound(err, networkingv1.Resource("ingresses"), current.Name) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting Ingress %s/%s: %w", current.Namespace, current.Name, err)
	}
	return nil
}

// warn records an Event about a foreign Ingress that has the name of the
// Service's Ingress. It does not repeat the Event for the same Ingress until
// forget has been called for the Service.
func (r *reconciler) warn(service *corev1.Service, foreign *networkingv1.Ingress) {
	key := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	r.mu.Lock()
	known := r.warned[key] == foreign.UID
	r.warned[key] = foreign.UID
	r.mu.Unlock()
	if !known {
		r.recorder.Eventf(service, foreign, corev1.EventTypeWarning, "IngressNotOurs", "Reconcile",
			"Ingress %s exists and is not managed by %s: it is left alone; delete it, or give it the labels and the "+
				"annotation of the README", key.String(), Name)
	}
}

func (r *reconciler) forget(key reconcile.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.warned, key)
}
