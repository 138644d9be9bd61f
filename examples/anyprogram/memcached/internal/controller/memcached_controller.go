// Package controller has the reconciler of operator-sdk's tutorial.
package controller

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	cachev1alpha1 "github.com/homeostat/homeostat/examples/anyprogram/memcached/api/v1alpha1"
)

const typeAvailableMemcached = "Available"

// MemcachedReconciler reconciles a Memcached object.
type MemcachedReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// Reconcile creates a Deployment of the size that the Memcached object
// specifies, or sets the replicas of an existing one to this size. Once the
// Deployment has this size, the condition Available of the Memcached object is
// set to true.
func (r *MemcachedReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := logf.FromContext(ctx)
	memcached := &cachev1alpha1.Memcached{}
	if err := r.Get(ctx, req.NamespacedName, memcached); err != nil {
		if apierrors.IsNotFound(err) {
			log.Info("memcached resource not found. Ignoring since object must be deleted")
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if len(memcached.Status.Conditions) == 0 {
		meta.SetStatusCondition(&memcached.Status.Conditions, metav1.Condition{
			Type: typeAvailableMemcached, Status: metav1.ConditionUnknown, Reason: "Reconciling",
			Message: "Starting reconciliation",
		})
		if err := r.Status().Update(ctx, memcached); err != nil {
			return ctrl.Result{}, err
		}
		if err := r.Get(ctx, req.NamespacedName, memcached); err != nil {
			return ctrl.Result{}, err
		}
	}

	found := &appsv1.Deployment{}
	err := r.Get(ctx, types.NamespacedName{Name: memcached.Name, Namespace: memcached.Namespace}, found)
	if apierrors.IsNotFound(err) {
		dep, err := r.deploymentForMemcached(memcached)
		if err != nil {
			return ctrl.Result{}, err
		}
		if err := r.Create(ctx, dep); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: time.Minute}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}

	if size := memcached.Spec.Size; *found.Spec.Replicas != size {
		found.Spec.Replicas = &size
		if err := r.Update(ctx, found); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{Requeue: true}, nil //nolint:staticcheck // as the tutorial has it
	}

	meta.SetStatusCondition(&memcached.Status.Conditions, metav1.Condition{
		Type: typeAvailableMemcached, Status: metav1.ConditionTrue, Reason: "Reconciling",
		Message: fmt.Sprintf("Deployment for custom resource (%s) with %d replicas created successfully",
			memcached.Name, memcached.Spec.Size),
	})
	return ctrl.Result{}, r.Status().Update(ctx, memcached)
}

func (r *MemcachedReconciler) deploymentForMemcached(memcached *cachev1alpha1.Memcached) (*appsv1.Deployment, error) {
	replicas := memcached.Spec.Size
	apps := map[string]string{"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": memcached.Name}
	dep := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: memcached.Name, Namespace: memcached.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: apps},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: apps},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Image: "memcached:1.6.26-alpine3.19", Name: "memcached",
					Ports:   []corev1.ContainerPort{{ContainerPort: memcached.Spec.ContainerPort, Name: "memcached"}},
					Command: []string{"memcached", "--memory-limit=64", "-o", "modern", "-v"},
				}}},
			},
		},
	}
	return dep, ctrl.SetControllerReference(memcached, dep, r.Scheme)
}

// SetupWithManager sets up the controller with the Manager.
func (r *MemcachedReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&cachev1alpha1.Memcached{}).Owns(&appsv1.Deployment{}).Named("memcached").Complete(r)
}
