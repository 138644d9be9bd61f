package drain_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
)

// listing is a client whose list is as old as it was made.
type listing struct {
	drain.Client
	list *corev1.PodList
}

func (l listing) Pods(namespace string) typedcorev1.PodInterface {
	return stale{l.Client.Pods(namespace), l.list}
}

type stale struct {
	typedcorev1.PodInterface
	list *corev1.PodList
}

func (s stale) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) { return s.list, nil }
