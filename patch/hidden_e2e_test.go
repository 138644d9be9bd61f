//go:build e2e

package patch_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/patch"
)

var _ = Describe("On the real server, what the program does not see", func() {
	It("survives in custom kinds, or the edit is refused", func(ctx SpecContext) {
		namespace, err := server.Namespace(ctx, "hidden")
		Expect(err).NotTo(HaveOccurred())
		w := newHiddenWorld(ctx, GinkgoTB(), server.Config(), namespace)
		w.survives(slices.Concat(hiddenCases, shorthandCases, roundedCases, nullCases))
	})

	It("survives in the tolerations of a Pod, of which a Transform has cleared the seconds", func(ctx SpecContext) {
		zero := int64(0)
		pod := blankPod(space)
		pod.Name = "tolerant"
		pod.Spec.Tolerations = []corev1.Toleration{{
			Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &zero,
		}}
		pods := typed.CoreV1().Pods
		stored, err := pods(space).Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		cached := stored.DeepCopy()
		for i := range cached.Spec.Tolerations {
			cached.Spec.Tolerations[i].TolerationSeconds = nil
		}
		added := corev1.Toleration{Key: "b", Operator: corev1.TolerationOpExists}
		got, err := patch.Merge(ctx, pods, cached, nil, func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, added)
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Spec.Tolerations).To(Equal(append(stored.Spec.Tolerations, added)))

		cached = got.DeepCopy()
		cached.Spec.Tolerations = nil
		_, err = patch.Merge(ctx, pods, cached, nil, func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{added} })
		Expect(err).To(MatchError(ContainSubstring("the server has fields in spec.tolerations")))
	})

	It("survives in ports of one number", func(ctx SpecContext) {
		services := typed.CoreV1().Services
		stored, err := services(space).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "dns", Namespace: space},
			Spec: corev1.ServiceSpec{
				Type:  corev1.ServiceTypeNodePort,
				Ports: []corev1.ServicePort{port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP")},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		cached := stored.DeepCopy()
		for i := range cached.Spec.Ports { // as an older type would have it
			cached.Spec.Ports[i].NodePort = 0
		}
		got, err := patch.Merge(ctx, services, cached, nil, func(s *corev1.Service) { s.Spec.Ports[1].Name = "tcp" })
		Expect(err).NotTo(HaveOccurred())
		want := stored.DeepCopy()
		want.Spec.Ports[1].Name = "tcp"
		Expect(got.Spec.Ports).To(Equal(want.Spec.Ports))
	})

	It("survives in the conditions of another writer", func(ctx SpecContext) {
		w := newHiddenWorld(ctx, GinkgoTB(), server.Config(), space)
		w.store("conditions", "status", `{"conditions":[{"type":"Theirs","status":"True"}]}`)
		cached := w.cached("conditions", nil)
		theirs := `{"status":{"conditions":[{"type":"Theirs","status":"True","severity":"Low"}]}}`
		_, err := w.widgets.dynamic.Namespace(space).Patch(ctx, "conditions", types.MergePatchType, []byte(theirs),
			metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Status(ctx, w.widgets.typed, cached, nil, ready)
		Expect(err).To(MatchError(patch.IsStale, "IsStale"))
		_, err = patch.Status(ctx, w.widgets.typed, w.cached("conditions", nil), nil, ready)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.has("conditions", "status")).To(ContainSubstring(`"severity":"Low"`))
	})
})
