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

// A goroutine that a reconciler has left behind may write whenever it likes.
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

// It may come when the reconcile has ended and its key is about to be held.
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
	for name, c := range map[string]struct {
		obj  metav1.Object
		want ownwrites.Outcome
	}{
		"ConfigMap":            {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "41", DeletionTimestamp: &metav1.Time{}}}, ownwrites.Removed},
		"ConfigMap, of a fake": {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}, ownwrites.Written},
		"one that stays":       {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "41"}}, ownwrites.Written},
		"Namespace":            {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "41", DeletionTimestamp: &metav1.Time{}}}, ownwrites.Uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := &recorder{control: &core{}}
			r.Wrote(c.obj)
			g.Expect(r.close()[0].outcome).To(Equal(c.want))
		})
	}
}
