package patch_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/patch"
)

func deployment(namespace, image string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: namespace, UID: "u1", ResourceVersion: "7",
			Labels: map[string]string{"app": image},
		},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "web", Image: image,
				Env: []corev1.EnvVar{{Name: "SECRET", Value: "of " + namespace}},
			}},
		}}},
	}
}

// A copy that an edit has seen belongs to the caller: later edits of other
// objects must not write to any part of it.
func TestAnEditMayRetainPartsOfItsCopy(t *testing.T) {
	g := NewWithT(t)
	c := &recording[*appsv1.Deployment]{answer: deployment("a", "image-a")}
	other := &appsv1.Deployment{}
	_, err := patch.Merge(t.Context(), always(c), deployment("a", "image-a"), nil, func(edit *appsv1.Deployment) {
		other.Spec.Template = edit.Spec.Template
		other.Labels = edit.Labels
	})
	g.Expect(err).NotTo(HaveOccurred())
	for range 8 {
		_, err = patch.Merge(t.Context(), always(c), deployment("b", "image-b"), nil, func(*appsv1.Deployment) {})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(other.Spec.Template).To(Equal(deployment("a", "image-a").Spec.Template))
	g.Expect(other.Labels).To(Equal(map[string]string{"app": "image-a"}))
}

// An edit may replace its copy by one of its own, which has the managed fields.
func TestAnEditMayReplaceItsCopyByAnEditedOne(t *testing.T) {
	g := NewWithT(t)
	cached := node()
	cached.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{}`)}}
	c := &recording[*corev1.Node]{answer: cached}
	own := cached.DeepCopy()
	got, err := patch.Merge(t.Context(), always(c), cached, nil, func(n *corev1.Node) { *n = *own })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(BeIdenticalTo(cached))
	own.Labels["a"] = "b"
	_, err = patch.Merge(t.Context(), always(c), cached, nil, func(n *corev1.Node) { *n = *own })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests).To(HaveLen(1))
	g.Expect(c.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u1","labels":{"a":"b"}}}`))
}

func TestAGoroutineMayRetainTheCopyOfAnEdit(t *testing.T) {
	g := NewWithT(t)
	c := &recording[*appsv1.Deployment]{answer: deployment("a", "image-a")}
	others := &recording[*appsv1.Deployment]{answer: deployment("b", "image-b")}
	read, next := make(chan *appsv1.Deployment), make(chan struct{})
	_, err := patch.Merge(t.Context(), always(c), deployment("a", "image-a"), nil, func(edit *appsv1.Deployment) {
		edit.Labels["edited"] = "yes"
		go func() {
			<-next
			edit.Labels["by"] = "the goroutine"
			read <- edit
		}()
	})
	g.Expect(err).NotTo(HaveOccurred())
	close(next)
	for range 8 {
		_, err = patch.Merge(t.Context(), always(others), deployment("b", "image-b"), nil, func(edit *appsv1.Deployment) {
			edit.Labels["edited"] = "no"
		})
		g.Expect(err).NotTo(HaveOccurred())
	}
	edited := <-read
	g.Expect(edited.Labels).To(Equal(map[string]string{"app": "image-a", "edited": "yes", "by": "the goroutine"}))
	g.Expect(edited.Spec).To(Equal(deployment("a", "image-a").Spec))
}

func TestEnsureLetsTheEditRetainWhatItCreatesAndPatches(t *testing.T) {
	for name, base := range map[string]*corev1.ConfigMap{"created": configMap(""), "patched": configMap("u3")} {
		want := base.DeepCopy()
		setB(want)
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &store{}
			s.answer = configMap("u3")
			var retained *corev1.ConfigMap
			_, err := patch.Ensure(t.Context(), always(s), base, nil, func(m *corev1.ConfigMap) {
				setB(m)
				retained = m
			})
			g.Expect(err).NotTo(HaveOccurred())
			for range 8 {
				_, err = patch.Merge(t.Context(), always(s), configMap("u4"), nil, func(m *corev1.ConfigMap) { m.Data = nil })
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(retained).To(Equal(want))
		})
	}
}

// The cached object stays as it was even where the copy is edited after Merge
// has returned.
func TestARetainedCopySharesNothingWithTheCache(t *testing.T) {
	g := NewWithT(t)
	withFields := func() *corev1.Node {
		n := node()
		n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{}`)}}
		return n
	}
	cached := withFields()
	c := &recording[*corev1.Node]{answer: withFields()}
	var retained *corev1.Node
	_, err := patch.Merge(t.Context(), always(c), cached, nil, func(n *corev1.Node) { retained = n })
	g.Expect(err).NotTo(HaveOccurred())
	for i := range retained.ManagedFields {
		retained.ManagedFields[i].Manager = "edited"
	}
	retained.Labels["zone"], retained.Spec.Taints[0].Key = "edited", "edited"
	g.Expect(cached).To(Equal(withFields()))
}
