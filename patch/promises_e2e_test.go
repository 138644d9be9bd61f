//go:build e2e

package patch_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"

	"github.com/homeostat/homeostat/patch"
)

// countingApply counts the requests of an Applier.
type countingApply struct {
	typedcorev1.ConfigMapInterface
	n int
}

func (c *countingApply) Apply(
	ctx context.Context, config *corev1apply.ConfigMapApplyConfiguration, o metav1.ApplyOptions,
) (*corev1.ConfigMap, error) {
	c.n++
	return c.ConfigMapInterface.Apply(ctx, config, o)
}

func labelled(key string) func(*corev1.ConfigMap) {
	return func(m *corev1.ConfigMap) { metav1.SetMetaDataLabel(&m.ObjectMeta, key, "yes") }
}

var _ = Describe("On the real server", func() {
	locked := &patch.Options{Lock: true}

	stored := func(ctx SpecContext, name string) *corev1.ConfigMap {
		GinkgoHelper()
		blank := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: space}}
		m, err := patch.Ensure(ctx, typed.CoreV1().ConfigMaps, blank, nil, setB)
		Expect(err).NotTo(HaveOccurred())
		return m
	}

	It("a lock refuses a changed object and a recreated one, and says that it is stale", func(ctx SpecContext) {
		c := typed.CoreV1().ConfigMaps(space)
		old := stored(ctx, "locked")
		changed, err := patch.Merge(ctx, always(c), old, nil, labelled("a"))
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Merge(ctx, always(c), old, locked, labelled("c"))
		Expect(err).To(MatchError(patch.IsStale, "IsStale"))
		Expect(patch.Delete(ctx, always(c), old, locked)).To(MatchError(patch.IsStale, "IsStale"))

		Expect(patch.Delete(ctx, always(c), changed, locked)).To(Succeed())
		recreated := stored(ctx, "locked")
		_, err = patch.Merge(ctx, always(c), changed, nil, labelled("c"))
		Expect(err).To(MatchError(patch.IsStale, "IsStale"))
		Expect(err).To(MatchError(apierrors.IsConflict, "IsConflict"))
		Expect(patch.Delete(ctx, always(c), changed, nil)).To(MatchError(patch.IsStale, "IsStale"))
		Expect(patch.Delete(ctx, always(c), recreated, nil)).To(Succeed())
		Expect(patch.Delete(ctx, always(c), recreated, nil)).To(Succeed())
		_, err = patch.Ensure(ctx, always(c), recreated, nil, func(m *corev1.ConfigMap) { m.Data["x"] = "y" })
		Expect(err).To(MatchError(patch.IsStale, "IsStale"))
	})

	It("finalizers that others add meanwhile survive, of built-in and of custom kinds", func(ctx SpecContext) {
		c := typed.CoreV1().ConfigMaps(space)
		add := func(f string) func(*corev1.ConfigMap) {
			return func(m *corev1.ConfigMap) { m.Finalizers = append(m.Finalizers, f) }
		}
		mine, err := patch.Merge(ctx, always(c), stored(ctx, "final"), nil, add("example.com/mine"))
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Merge(ctx, always(c), mine, nil, add("example.com/theirs"))
		Expect(err).NotTo(HaveOccurred())
		got, err := patch.Merge(ctx, always(c), mine, nil, func(m *corev1.ConfigMap) { m.Finalizers = nil })
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Finalizers).To(Equal([]string{"example.com/theirs"}))

		w := widgetClient()
		custom, err := w.Create(ctx, fresh("final"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		addTo := func(f string) func(*widget) {
			return func(w *widget) { w.Finalizers = append(w.Finalizers, f) }
		}
		_, err = patch.Merge(ctx, always(w), custom, nil, addTo("example.com/theirs"))
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Merge(ctx, always(w), custom, nil, addTo("example.com/mine"))
		Expect(err).To(MatchError(patch.IsStale, "IsStale"))
	})

	It("a field that our older type does not know survives", func(ctx SpecContext) {
		dyn := untypedClient.Resource(widgetResource)
		newer := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "newer", "namespace": space},
			"spec": map[string]any{"size": int64(1), "bare": map[string]any{}, "invented": map[string]any{"later": "yes"}},
		}}
		_, err := patch.Ensure(ctx, patch.Dynamic(dyn), newer, nil, func(*unstructured.Unstructured) {})
		Expect(err).NotTo(HaveOccurred())
		w := widgetClient()
		old, err := w.Get(ctx, "newer", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = patch.Merge(ctx, always(w), old, nil, func(w *widget) { w.Spec.Size = 2 })
		Expect(err).NotTo(HaveOccurred())
		got, err := dyn.Namespace(space).Get(ctx, "newer", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Object["spec"]).To(Equal(map[string]any{
			"size": int64(2), "bare": map[string]any{}, "invented": map[string]any{"later": "yes"},
		}))
	})

	It("status of a custom kind is written with its generation", func(ctx SpecContext) {
		c := widgetClient()
		w, err := c.Create(ctx, fresh("status"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		w, err = patch.Status(ctx, always(c), w, nil, func(w *widget) { w.Status.Phase = "Ready" })
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Status).To(Equal(widgetStatus{Phase: "Ready", ObservedGeneration: w.Generation}))
		Expect(w.Generation).NotTo(BeZero())
	})

	It("an Applier takes a dynamic client", func(ctx SpecContext) {
		a := patch.NewApplier(patch.Dynamic(untypedClient.Resource(widgetResource)))
		var got *unstructured.Unstructured
		for range 3 {
			var err error
			got, err = a.Apply(ctx, got, nil, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{"size": int64(4)},
				"metadata": map[string]any{"name": "applied", "namespace": space},
			}})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(got.Object["spec"]).To(HaveKeyWithValue("size", int64(4)))
	})

	It("metadata clients patch and delete", func(ctx SpecContext) {
		client, err := metadata.NewForConfig(server.Config())
		Expect(err).NotTo(HaveOccurred())
		c := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
		stored(ctx, "partial")
		cached, err := c.Namespace(space).Get(ctx, "partial", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		got, err := patch.Merge(ctx, c.Namespace, cached, locked, func(o *metav1.PartialObjectMetadata) {
			o.Labels = map[string]string{"a": "b"}
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Labels).To(HaveKeyWithValue("a", "b"))
		Expect(patch.Delete(ctx, patch.Metadata(c), got, locked)).To(Succeed())
	})

	It("an unchanged apply is not sent again, until another manager takes a field", func(ctx SpecContext) {
		c := typed.CoreV1().ConfigMaps(space)
		counted := &countingApply{ConfigMapInterface: c}
		a := patch.NewApplier(always(counted))
		config := func() *corev1apply.ConfigMapApplyConfiguration {
			return corev1apply.ConfigMap("applied", space).WithData(map[string]string{"a": "1"})
		}
		apply := func(cached *corev1.ConfigMap) *corev1.ConfigMap {
			GinkgoHelper()
			got, err := a.Apply(ctx, cached, nil, config())
			Expect(err).NotTo(HaveOccurred())
			return got
		}
		seen := apply(apply(nil))
		Expect(counted.n).To(Equal(1))
		other, err := patch.Merge(ctx, always(c), seen, &patch.Options{FieldManager: "other"}, labelled("x"))
		Expect(err).NotTo(HaveOccurred())
		apply(other)
		Expect(counted.n).To(Equal(1))
		other, err = patch.Merge(ctx, always(c), other, &patch.Options{FieldManager: "other"},
			func(m *corev1.ConfigMap) { m.Data["a"] = "2" })
		Expect(err).NotTo(HaveOccurred())
		seen = apply(other)
		Expect(seen.Data).To(HaveKeyWithValue("a", "1"))
		Expect(counted.n).To(Equal(2))
		replica := patch.NewApplier(always(c))
		other, err = replica.Apply(ctx, seen, nil, config().WithData(map[string]string{"a": "3"}))
		Expect(err).NotTo(HaveOccurred())
		Expect(apply(other).Data).To(HaveKeyWithValue("a", "1"), "another replica has the same field manager")
		Expect(counted.n).To(Equal(3))
	})

	It("an Applier takes over what Ensure and updates have set, but for finalizers", func(ctx SpecContext) {
		c, ensured := typed.CoreV1().ConfigMaps(space), &patch.Options{FieldManager: "ctrl"}
		blank := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "migrated", Namespace: space}}
		m, err := patch.Ensure(ctx, typed.CoreV1().ConfigMaps, blank, ensured, func(m *corev1.ConfigMap) {
			m.Data = map[string]string{"a": "1", "b": "1"}
			m.Finalizers = []string{"example.com/mine"}
		})
		Expect(err).NotTo(HaveOccurred())
		m.Data["c"] = "1"
		m, err = c.Update(ctx, m, metav1.UpdateOptions{FieldManager: "manager"}) // as controller-runtime does
		Expect(err).NotTo(HaveOccurred())
		counted := &countingApply{ConfigMapInterface: c}
		a := patch.NewApplier(always(counted))
		config := corev1apply.ConfigMap("migrated", space).WithData(map[string]string{"a": "2"})
		m, err = a.Apply(ctx, m, ensured, config)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Data).To(Equal(map[string]string{"a": "2", "b": "1", "c": "1"}), "owned by the updates")

		taking := &patch.Options{FieldManager: "ctrl", TakeOver: []string{"ctrl", "manager"}}
		stale := m.DeepCopy()
		for range 3 {
			m, err = a.Apply(ctx, m, taking, config)
			Expect(err).NotTo(HaveOccurred())
			Expect(m.Data).To(Equal(map[string]string{"a": "2"}))
			Expect(m.Finalizers).To(Equal([]string{"example.com/mine"}))
		}
		Expect(counted.n).To(Equal(2))
		_, err = a.Apply(ctx, stale, taking, config)
		Expect(err).To(MatchError(patch.IsStale, "IsStale"))
	})
})
