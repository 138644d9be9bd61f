package reconcile

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

// A goroutine that a reconciler has left behind may write at any time.
func TestWhatIsSentAfterTheReconcileIsNotRecorded(t *testing.T) {
	g := NewWithT(t)
	all := sources{typed[*corev1.ConfigMap]{informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)}}
	c := &core{intake: intake{sources: all}, fresh: &freshness{sources: all}}
	r := &recorder{control: c}
	send := func(name string) func() {
		ended := r.Sending(ownwrites.Write{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: "d", Name: name})
		return func() { ended(ownwrites.Uncertain, nil) }
	}
	send("before")
	g.Expect(r.close()).To(HaveLen(1))
	g.Expect(c.fresh.baselines).To(HaveLen(1))
	send("after")()
	g.Expect(r.close()).To(HaveLen(1))
	g.Expect(c.fresh.baselines).To(HaveLen(1))
}

// The answer may arrive when the reconcile has ended and its key is about to be
// held.
func TestAnAnswerBetweenTheEndOfAReconcileAndItsVerdictIsNotLost(t *testing.T) {
	g := NewWithT(t)
	all := sources{typed[*corev1.ConfigMap]{informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil)}}
	r := &recorder{control: &core{intake: intake{sources: all}, fresh: &freshness{sources: all}}}
	ended := r.Sending(ownwrites.Write{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: "d", Name: "a"})
	writes := r.close()
	ended(ownwrites.Refused, nil)
	var answered []ownwrites.Outcome
	writes[0].whenAnswered(func(w write) { answered = append(answered, w.outcome) })
	g.Expect(answered).To(Equal([]ownwrites.Outcome{ownwrites.Refused}))
}

// A Namespace without finalizers in its metadata may have some in its spec.
func TestAReportOfAnObjectThatHasLostItsLastFinalizerIsOfItsRemoval(t *testing.T) {
	g := NewWithT(t)
	outcome := func(of metav1.Object, version string, marked *metav1.Time) ownwrites.Outcome {
		of.SetResourceVersion(version)
		of.SetDeletionTimestamp(marked)
		r := &recorder{control: &core{}}
		r.Wrote(of, ownwrites.Content{})
		return r.close()[0].outcome
	}
	g.Expect(outcome(&corev1.ConfigMap{}, "41", &metav1.Time{})).To(Equal(ownwrites.Removed))
	g.Expect(outcome(&corev1.ConfigMap{}, "", &metav1.Time{})).To(Equal(ownwrites.Written), "by a fake")
	g.Expect(outcome(&corev1.ConfigMap{}, "41", nil)).To(Equal(ownwrites.Written))
	g.Expect(outcome(&corev1.Namespace{}, "41", &metav1.Time{})).To(Equal(ownwrites.Uncertain))
}
