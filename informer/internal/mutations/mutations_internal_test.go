package mutations

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestTheFieldsOfAMutationAreNamedAlsoWhereSomethingWasRemoved(t *testing.T) {
	g := NewWithT(t)
	before := &corev1.Pod{}
	before.Labels = map[string]string{"a": "b"}
	before.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
	before.Spec.Volumes = []corev1.Volume{{Name: "c"}}
	after := before.DeepCopy()
	after.Labels, after.Spec.Containers, after.Spec.Volumes = nil, after.Spec.Containers[:1], nil
	g.Expect(differences(before, after)).To(Equal([]string{"metadata.labels", "spec.containers[1]", "spec.volumes"}))
	g.Expect(differences(before, before)).To(Equal([]string{"unknown fields"}))
	after.Labels = map[string]string{}
	for n := range 2 * mostFields {
		after.Labels[fmt.Sprintf("l%02d", n)] = ""
	}
	g.Expect(differences(before, after)).To(And(HaveLen(mostFields), HaveExactElements("metadata.labels.a",
		"metadata.labels.l00", "metadata.labels.l01", "metadata.labels.l02", "metadata.labels.l03", "metadata.labels.l04",
		"metadata.labels.l05", "metadata.labels.l06", "metadata.labels.l07", "metadata.labels.l08")), "the first ten")
}
