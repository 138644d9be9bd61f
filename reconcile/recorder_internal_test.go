package reconcile

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
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
