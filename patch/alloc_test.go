//go:build !race

package patch_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/patch"
)

// silent answers every patch and records nothing.
type silent struct{ answer *corev1.Pod }

func (s silent) Patch(
	context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string,
) (*corev1.Pod, error) {
	return s.answer, nil
}

func TestAllocations(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", UID: "6f8b1c9e-0000-4000-8000-000000000001", Annotations: map[string]string{"a": "1", "b": "2"}, Finalizers: []string{"f"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{}`)}},
	}}
	for range 20 { // what an edit of the metadata must not copy
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "c", Env: make([]corev1.EnvVar, 9)})
	}
	ctx, c := t.Context(), silent{pod}
	most := testing.AllocsPerRun(100, func() { pod.DeepCopy() }) // which copies the managed fields, too
	for _, row := range []struct {
		name string
		most float64
		run  func() (*corev1.Pod, error)
	}{
		{"any edit", most + 3, func() (*corev1.Pod, error) {
			return patch.Merge(ctx, always(c), pod, nil, func(p *corev1.Pod) { p.Spec.NodeName = "n" })
		}},
		{"an edit of nothing", most + 1, func() (*corev1.Pod, error) {
			return patch.Merge(ctx, always(c), pod, nil, func(*corev1.Pod) {})
		}},
	} {
		got := testing.AllocsPerRun(100, func() {
			if _, err := row.run(); err != nil {
				t.Fatal(err)
			}
		})
		if got > row.most {
			t.Errorf("%s takes %v allocations, at most %v", row.name, got, row.most)
		}
	}
}
