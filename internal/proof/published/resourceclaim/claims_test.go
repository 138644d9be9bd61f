package resourceclaim_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"

	"github.com/homeostat/homeostat/internal/proof/published"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// claiming is a Pod with two claims by a template.
func claiming(annotations map[string]string) []runtime.Object {
	pod := published.Template().Spec
	for _, name := range []string{"gpu", "model"} {
		pod.ResourceClaims = append(pod.ResourceClaims,
			corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: new("one")})
	}
	return []runtime.Object{
		&resourceapi.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "one"},
			Spec: resourceapi.ResourceClaimTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
				Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
					Requests: []resourceapi.DeviceRequest{{Name: "one", Exactly: &resourceapi.ExactDeviceRequest{
						DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
					}}},
				}},
			},
		},
		&corev1.Pod{ObjectMeta: published.Meta(), Spec: pod},
	}
}

// known lists the findings of both versions: a restart with stale caches makes
// the claims again, and so does a reply that is lost, or comes after a timeout,
// if the watch is slow. A claim that another client has deleted is made again
// when something else wakes the controller.
var known = []string{"caches that begin", "the reply is lost", "timeout, and later the commit"}

// kubernetes/kubernetes#138407: the status has one of the two, then the other,
// and so on.
func TestClaimsThatTheCacheDoesNotHaveYet(t *testing.T) {
	(&published.Bug{
		Controller: resourceclaim.NewController, Fixed: "v1.37.0", Options: reconciletest.Options{Steps: 2_000, KnownFindings: known, SkipDrift: true},
		Case:   &reconciletest.Case{Run: published.Wire(resourceClaims).Program, Objects: claiming(nil)},
		Oracle: "rest", Says: `resourceClaimStatuses|never`,
	}).Told(t)
}

// kubernetes/kubernetes#141104: the template in the cache has the annotations
// of the claim.
func TestClaimTemplateWithAnnotations(t *testing.T) {
	(&published.Bug{
		Controller: resourceclaim.NewController, Fixed: "v1.37.0", Options: reconciletest.Options{KnownFindings: known, SkipDrift: true},
		Case: &reconciletest.Case{
			Run: func(env *reconciletest.Env) error {
				return published.Wire(func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (
					[]published.Loop, error,
				) {
					env.Cache("resourceclaimtemplates.resource.k8s.io",
						f.Resource().V1().ResourceClaimTemplates().Informer().GetStore().List)
					return resourceClaims(ctx, c, f)
				}).Program(env)
			},
			Objects: claiming(map[string]string{"team": "a"}),
		},
		Oracle: "mutation", Says: `resourceclaimtemplates`,
	}).Told(t)
}
