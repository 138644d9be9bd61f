package drain

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// A Client lists Pods and requests evictions.
type Client interface {
	// List returns the Pods of all namespaces.
	List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error)
	// Evict sends one request for an eviction. It returns a refusal as an
	// error, and does not retry.
	Evict(ctx context.Context, e *policyv1.Eviction) error
}

// Pods returns a client for all Pods. It does not use the typed client for
// evictions. When the server asks for a retry later, as it does for some
// disruption budgets, the typed client sleeps inside the call.
func Pods(core typedcorev1.CoreV1Interface) Client { return client{core} }

type client struct{ core typedcorev1.CoreV1Interface }

func (c client) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	return c.core.Pods(metav1.NamespaceAll).List(ctx, o)
}

func (c client) Evict(ctx context.Context, e *policyv1.Eviction) error {
	return c.core.RESTClient().Post().Namespace(e.Namespace).Resource("pods").Name(e.Name).SubResource("eviction").
		Body(e).MaxRetries(0).Do(ctx).Error()
}
