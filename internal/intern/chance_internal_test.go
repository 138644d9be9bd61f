package intern

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ownedPod(version int) *corev1.Pod {
	isController := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: fmt.Sprint(version),
			OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: &isController}},
		},
		Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "k"}}},
	}
}

// A new object finds a relative although each earlier state of the relative was
// dropped, because one of 16 updates registers the object again; see the
// constant sparse.
func TestAReplicaFindsARelativeThatWasUpdated(t *testing.T) {
	g := gomega.NewWithT(t)
	s := New()
	current := ownedPod(0)
	s.Object(current)
	for s.objects.Load()%sparse != 0 {
		next := ownedPod(1)
		s.Update(next, current)
		current = next
		runtime.GC() // drops the state before
	}
	other := ownedPod(0)
	s.Object(other)
	g.Expect(&other.Spec.Tolerations[0]).To(gomega.BeIdenticalTo(&current.Spec.Tolerations[0]))
}
