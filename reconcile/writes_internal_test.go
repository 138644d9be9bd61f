package reconcile

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The transport sees the metadata, the report of an update has the rest; that
// of a deletion is about an older state.
func TestAReportGivesTheWholeObjectOfAWriteThatTheTransportHasSeen(t *testing.T) {
	for deleted, want := range map[bool]string{false: "reported", true: "seen"} {
		g := NewWithT(t)
		of := func(name string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u1", ResourceVersion: "2"}}
		}
		r := &recorder{writes: []write{
			{object: of("seen"), deleted: deleted, resource: schema.GroupResource{Resource: "configmaps"}},
		}}
		r.record(write{object: of("reported"), deleted: deleted})
		g.Expect(r.writes).To(HaveLen(1))
		g.Expect(r.writes[0].object.GetName()).To(Equal(want))
	}
}
