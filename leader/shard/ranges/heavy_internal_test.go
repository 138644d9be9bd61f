package ranges

import (
	"fmt"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/internal/plan"
)

// uneven returns namespaces, one with half of all objects and one with 40 %.
func uneven() map[string]int {
	namespaces := map[string]int{"big": 4000, "bigger": 5000, "some": 100}
	for n := range 90 {
		namespaces[fmt.Sprint("small-", n)] = 10
	}
	return namespaces
}

func TestANamespaceIsHeavyComparedWithAFairShare(t *testing.T) {
	g := NewWithT(t)
	r, err := New(leader.Lease{
		Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "test", Identity: "a",
	}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	for _, slot := range r.Status().Slots { // the ranges are not known
		g.Expect(slot.Weight).To(BeZero())
	}
	first := plan.Divide(uneven(), 64)
	recorded, err := r.parse(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		rangesAnnotation: first.String(), heavyAnnotation: plan.FormatHeavy(first.Heavy),
	}}})
	g.Expect(err).NotTo(HaveOccurred())
	r.recorded.Store(recorded)
	join := func(name string) {
		lease := &coordinationv1.Lease{}
		lease.Name, lease.Labels = r.replica.Records.MemberName(name), record.MemberLabels("test")
		r.replica.View.Observe(record.Taken(lease, name+"_1.1", time.Minute, time.Now()), false, time.Now())
	}
	heavy := func() map[int]string {
		found, weight := map[int]string{}, 0.0
		for n, slot := range r.Status().Slots {
			weight += slot.Weight
			if slot.Heavy != "" {
				found[n] = slot.Heavy
			}
		}
		g.Expect(weight).To(BeNumerically("~", 1, 1e-6))
		return found
	}
	bigger, big := r.current().SlotOf("bigger"), r.current().SlotOf("big")
	join("a")
	join("b")
	g.Expect(heavy()).To(BeEmpty(), "each of two can have half")
	join("c")
	g.Expect(heavy()).To(Equal(map[int]string{bigger: "bigger", big: "big"}))
	g.Expect(r.Status().Slots[bigger].Weight).To(BeNumerically("~", 0.5, 0.02))
	for n := range uint64(1_000_000) {
		if name := fmt.Sprintf("%x", n*0x9e3779b97f4a7c15); r.current().SlotOf(name) == big {
			r.current().Heavy = []plan.Share{{Name: "big", Share: 0.45}, {Name: name, Share: 0.4}}
			break
		}
	}
	g.Expect(r.current().Heavy).To(HaveLen(2))
	g.Expect(heavy()).To(Equal(map[int]string{big: "big"}), "the heaviest of a slot")
}

func TestTheSlotOfAKeyIsTheRangeOfItsNamespace(t *testing.T) {
	g := NewWithT(t)
	r, err := New(leader.Lease{
		Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "test", Identity: "a",
	}, &shard.Options{Slots: 4})
	g.Expect(err).NotTo(HaveOccurred())
	for n := range 100 {
		namespace := fmt.Sprint(n, "-ns")
		slot := r.Slot(types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(n)})
		of, _, err := keyspace.Parse(keyspace.Requirement(r.rangesOf([]int{slot})[0]))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(of.Contains(keyspace.Of(namespace))).To(BeTrue())
	}
	g.Expect(r.Slot(types.NamespacedName{})).To(Equal(int(keyspace.Of("") / (math.MaxUint64/4 + 1))))
}
