//go:build before136

package kubernetes_test

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/job"

	"github.com/homeostat/homeostat/internal/proof/published"
)

func jobs(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) ([]published.Loop, error) {
	j, err := job.NewController(ctx, f.Core().V1().Pods(), f.Batch().V1().Jobs(), c)
	return []published.Loop{func(ctx context.Context) { j.Run(ctx, 2) }}, err
}
