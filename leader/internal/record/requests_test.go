package record_test

import (
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/leader/internal/record"
)

func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "l", ResourceVersion: "7"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("a")},
	}
}

// A replica of shards that believed an empty list would take all slots.
func TestASuccessThatIsNotTheServersIsNoRecord(t *testing.T) {
	for _, page := range absenttest.Successes() {
		t.Run(page.Name, func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			leases := kubernetes.NewForConfigOrDie(page.Config()).CoordinationV1().Leases("d")
			_, err := record.Get(ctx, leases, "l")
			g.Expect(err).To(HaveOccurred())
			g.Expect(record.IsNotFound(err, "l")).To(BeFalse())
			_, err = record.Create(ctx, leases, lease())
			g.Expect(err).To(HaveOccurred())
			_, err = record.Update(ctx, leases, lease())
			g.Expect(err).To(HaveOccurred())
			_, err = record.List(ctx, leases, "a=b")
			g.Expect(err).To(HaveOccurred())
		})
	}
}

func TestAnswersOfTheServerAreRecords(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	leases := kubernetes.NewForConfigOrDie(sim.Config("c")).CoordinationV1().Leases("d")
	first := lease()
	first.ResourceVersion = ""
	first, err = record.Create(ctx, leases, first)
	g.Expect(err).NotTo(HaveOccurred())
	first.Spec.HolderIdentity = nil
	_, err = record.Update(ctx, leases, first)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = record.Get(ctx, leases, "l")
	g.Expect(err).NotTo(HaveOccurred())
	list, err := record.List(ctx, leases, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Items).To(HaveLen(1))
}
