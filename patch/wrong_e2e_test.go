//go:build e2e

package patch_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/patch"
)

var _ = Describe("On the real server, no write reaches another object", func() {
	for name, write := range podWrites {
		It("of another namespace: "+name, func(ctx SpecContext) {
			a, err := server.Namespace(ctx, "patch-a")
			Expect(err).NotTo(HaveOccurred())
			b, err := server.Namespace(ctx, "patch-b")
			Expect(err).NotTo(HaveOccurred())
			t := GinkgoTB()
			cached := inTwoNamespaces(ctx, t, typed, a, b)
			err = untouched(ctx, t, typed, a, func() error { return write(ctx, always(typed.CoreV1().Pods(a)), cached) })
			Expect(err).To(MatchError(And(ContainSubstring(a+"/x"), ContainSubstring(b+"/x"))))
			of := func(string) typedcorev1.PodInterface { return hidden{typed.CoreV1().Pods(a)} }
			err = untouched(ctx, t, typed, a, func() error { return write(ctx, of, cached) })
			Expect(patch.IsStale(err) || apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
			Expect(write(ctx, typed.CoreV1().Pods, cached)).To(Succeed())
		})

		It("that was recreated: "+name, func(ctx SpecContext) {
			b, err := server.Namespace(ctx, "patch-again")
			Expect(err).NotTo(HaveOccurred())
			pods, now := typed.CoreV1().Pods(b), int64(0)
			cached, err := pods.Create(ctx, blankPod(b), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(pods.Delete(ctx, "x", metav1.DeleteOptions{GracePeriodSeconds: &now})).To(Succeed())
			missing := write(ctx, typed.CoreV1().Pods, cached)
			Expect(missing == nil || apierrors.IsNotFound(missing) || patch.IsStale(missing)).To(BeTrue(), "%v", missing)
			_, err = pods.Create(ctx, blankPod(b), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			err = untouched(ctx, GinkgoTB(), typed, b, func() error { return write(ctx, typed.CoreV1().Pods, cached) })
			Expect(err).To(MatchError(patch.IsStale, "IsStale"))
		})
	}

	It("in the status of a custom kind, where the server ignores the UID", func(ctx SpecContext) {
		recreatedStatus(ctx, GinkgoTB(), widgetClients(GinkgoTB(), server.Config()), space)
	})

	It("in the scale of a custom kind, where the server ignores it, too", func(ctx SpecContext) {
		c := widgetClients(GinkgoTB(), server.Config()).dynamic.Namespace(space)
		create := func() *unstructured.Unstructured {
			_, err := c.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Widget",
				"metadata": map[string]any{"name": "scaled"}, "spec": map[string]any{"size": int64(1)},
			}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			scale, err := c.Get(ctx, "scaled", metav1.GetOptions{}, "scale")
			Expect(err).NotTo(HaveOccurred())
			return scale
		}
		scale := func(cached *unstructured.Unstructured) error {
			_, err := patch.Merge(ctx, always(c), cached, &patch.Options{Subresource: "scale"}, func(u *unstructured.Unstructured) {
				Expect(unstructured.SetNestedField(u.Object, int64(7), "spec", "replicas")).To(Succeed())
			})
			return err
		}
		cached := create()
		Expect(c.Delete(ctx, "scaled", metav1.DeleteOptions{})).To(Succeed())
		recreated := create()
		Expect(scale(cached)).To(MatchError(patch.IsStale, "IsStale"))
		now, err := c.Get(ctx, "scaled", metav1.GetOptions{}, "scale")
		Expect(err).NotTo(HaveOccurred())
		Expect(now).To(Equal(recreated))
		Expect(scale(recreated)).To(Succeed())
	})

	It("whose edit would be invalid on the recreated object", func(ctx SpecContext) {
		b, err := server.Namespace(ctx, "patch-shape")
		Expect(err).NotTo(HaveOccurred())
		pods, now := typed.CoreV1().Pods(b), int64(0)
		cached, err := pods.Create(ctx, blankPod(b), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Delete(ctx, "x", metav1.DeleteOptions{GracePeriodSeconds: &now})).To(Succeed())
		recreated := blankPod(b)
		recreated.Spec.Containers[0].Name = "another"
		_, err = pods.Create(ctx, recreated, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(podWrites["Merge"](ctx, typed.CoreV1().Pods, cached)).To(MatchError(patch.IsStale, "IsStale"))
	})

	It("in the status of a FlowSchema, where the server ignores it, too", func(ctx SpecContext) {
		schema := func() *flowcontrolv1.FlowSchema {
			return &flowcontrolv1.FlowSchema{
				ObjectMeta: metav1.ObjectMeta{Name: "recreated"},
				Spec: flowcontrolv1.FlowSchemaSpec{
					PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "global-default"},
					MatchingPrecedence:         9000,
				},
			}
		}
		c := typed.FlowcontrolV1().FlowSchemas()
		cached, err := c.Create(ctx, schema(), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Delete(ctx, "recreated", metav1.DeleteOptions{})).To(Succeed())
		_, err = c.Create(ctx, schema(), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Status(ctx, patch.ClusterScoped(c), cached, nil, func(f *flowcontrolv1.FlowSchema) {
			f.Status.Conditions = append(f.Status.Conditions, flowcontrolv1.FlowSchemaCondition{Type: "Wrong", Status: "True"})
		})
		Expect(err).To(MatchError(patch.IsStale, "IsStale"))
	})

	It("is no reason to take an invalid edit for a stale cache", func(ctx SpecContext) {
		b, err := server.Namespace(ctx, "patch-invalid")
		Expect(err).NotTo(HaveOccurred())
		cached, err := typed.CoreV1().Pods(b).Create(ctx, blankPod(b), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Merge(ctx, typed.CoreV1().Pods, cached, nil, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n"}}
		})
		Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"))
		Expect(err).NotTo(MatchError(patch.IsStale, "IsStale"))
	})

	It("a kind without the subresource is an error that says so", func(ctx SpecContext) {
		m, err := typed.CoreV1().ConfigMaps(space).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "without-status"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Merge(ctx, typed.CoreV1().ConfigMaps, m, &patch.Options{Subresource: "scale"}, setB)
		Expect(err).To(MatchError(ContainSubstring(`the kind has no subresource "scale"`)))
		Expect(err).NotTo(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(patch.Delete(ctx, typed.CoreV1().ConfigMaps, m, nil)).To(Succeed())
		_, err = patch.Merge(ctx, typed.CoreV1().ConfigMaps, m, &patch.Options{Subresource: "scale"}, setB)
		Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})
})
