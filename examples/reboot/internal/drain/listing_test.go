package drain_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
)

// scripted lists these Pods, and answers evictions; without a function its
// client does.
type scripted struct {
	drain.Client
	list  *corev1.PodList
	err   error
	evict func(e *policyv1.Eviction) error
}

func (s scripted) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return s.list, s.err
}

func (s scripted) Evict(ctx context.Context, e *policyv1.Eviction) error {
	if s.evict == nil {
		return s.Client.Evict(ctx, e)
	}
	return s.evict(e)
}

func listOf(pods ...corev1.Pod) *corev1.PodList { return &corev1.PodList{Items: pods} }

func podIn(namespace, name string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
}
