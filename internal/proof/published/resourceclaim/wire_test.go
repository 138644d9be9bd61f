//go:build !before137

package resourceclaim_test

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"

	"github.com/homeostat/homeostat/internal/proof/published"
)

func resourceClaims(
	ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory,
) ([]published.Loop, error) {
	r, err := resourceclaim.NewController(klog.FromContext(ctx), c, f.Core().V1().Pods(),
		f.Scheduling().V1beta1().PodGroups(), f.Resource().V1().ResourceClaims(), f.Resource().V1().ResourceClaimTemplates())
	return []published.Loop{func(ctx context.Context) { r.Run(ctx, 2) }}, err
}
