package e2e

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const pollInterval = 20 * time.Millisecond

// Namespace creates a namespace whose name begins with the prefix, and returns
// the name. It waits for the default service account, without which no Pods can
// be created in the namespace.
func (c *Cluster) Namespace(ctx context.Context, prefix string) (string, error) {
	namespace, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating a namespace for %q: %w", prefix, err)
	}
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := c.client.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the default service account of namespace %q: %w", namespace.Name, err)
	}
	return namespace.Name, nil
}

// poll calls f until f returns true or an error, the time in patience has
// passed, or ctx has ended.
func poll(ctx context.Context, f wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, patience, true, f)
}
