package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
	"github.com/homeostat/homeostat/internal/proof/bench/crowd"
)

// eventually waits until done returns true, for at most two minutes. condition
// is a text for the error, such as "the Secret exists".
func eventually(ctx context.Context, condition string, done wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, done); err != nil {
		return fmt.Errorf("waiting until %s: %w", condition, err)
	}
	return nil
}

// repairsSecret deletes a Secret that external-secrets has made, and waits
// until it exists again.
func (w *world) repairsSecret(ctx context.Context) error {
	secrets := w.client.CoreV1().Secrets(crowd.Namespace(0))
	exists := func(ctx context.Context) (bool, error) {
		_, err := secrets.Get(ctx, "external-0", metav1.GetOptions{})
		return err == nil, nil
	}
	if err := eventually(ctx, "the Secret exists", exists); err != nil {
		return err
	}
	if err := secrets.Delete(ctx, "external-0", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the deleted Secret exists again", exists)
}

// evictsPod creates a Pod that has restarted too often, and waits until the Pod
// is evicted. There is no kubelet that ends the Pod, so evictsPod then deletes
// it without a grace period.
func (w *world) evictsPod(ctx context.Context) error {
	p := load.Plain(crowd.Pods)
	p.Namespace, p.UID, p.ResourceVersion, p.Generation, p.ManagedFields = crowd.Namespace(0), "", "", 0, nil
	p.Name, p.Spec.NodeName = "restarting", load.Node(0)
	pods := w.client.CoreV1().Pods(p.Namespace)
	remove := func() error { // an interrupted run may have left the Pod behind
		return ignoreNotFound(pods.Delete(ctx, p.Name, *metav1.NewDeleteOptions(0)))
	}
	if err := remove(); err != nil {
		return err
	}
	status := p.Status
	created, err := pods.Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status = status
	created.Status.ContainerStatuses[0].RestartCount = 2 * tooManyRestarts
	if _, err := pods.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	evicted := func(ctx context.Context) (bool, error) {
		live, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && live.DeletionTimestamp != nil, nil
	}
	if err := eventually(ctx, "the Pod is evicted", evicted); err != nil {
		return err
	}
	return remove()
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// conditions returns the statuses of an object's conditions, by type.
func conditions(o *unstructured.Unstructured) map[string]string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	statuses := map[string]string{}
	for _, c := range all {
		if c, ok := c.(map[string]any); ok {
			statuses[fmt.Sprint(c["type"])] = fmt.Sprint(c["status"])
		}
	}
	return statuses
}
