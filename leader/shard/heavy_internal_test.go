package shard

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/internal/record"
)

// uneven returns namespaces, one with half of all objects and one with 40 %.
func uneven() map[string]int {
	namespaces := map[string]int{"big": 4000, "bigger": 5000, "some": 100}
	for n := range 90 {
		namespaces[fmt.Sprint("small-", n)] = 10
	}
	return namespaces
}

func TestTheNamespacesThatMayBeTooHeavyAreRecorded(t *testing.T) {
	g := NewWithT(t)
	d := divide(uneven(), 64)
	text := formatHeavy(d.heavy)
	g.Expect(text).To(MatchRegexp(`^.{"Name":"bigger","Share":0.5.*},{"Name":"big","Share":0.4.*}.$`))
	g.Expect(parseHeavy(text)).To(Equal(d.heavy))
	for _, edited := range []string{"", "x", `[{"Name":"big","Share":"x"}]`} {
		g.Expect(parseHeavy(edited)).To(BeNil(), edited)
	}
	g.Expect(divide(nil, 64).heavy).To(BeEmpty())
	even := map[string]int{}
	for n := range 64 {
		even[fmt.Sprint("team-", n)] = 10
	}
	g.Expect(divide(even, 64).heavy).To(BeEmpty(), "a 64th is light")
}

func TestANamespaceIsHeavyBesideTheFairShareOfAReplica(t *testing.T) {
	g := NewWithT(t)
	r, err := NewRanges(leader.Lease{
		Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "test", Identity: "a",
	}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	for _, slot := range r.Status().Slots { // the ranges are not known
		g.Expect(slot.Weight).To(BeZero())
	}
	first := divide(uneven(), 64)
	recorded, err := r.parse(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		rangesAnnotation: first.String(), heavyAnnotation: formatHeavy(first.heavy),
	}}})
	g.Expect(err).NotTo(HaveOccurred())
	r.recorded.Store(recorded)
	join := func(name string) {
		lease := &coordinationv1.Lease{}
		lease.Name, lease.Labels = r.records.memberName(name), record.MemberLabels("test")
		r.view.observe(record.Taken(lease, name+"_1.1", time.Minute, time.Now()), false, time.Now())
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
	bigger, big := r.current().slotOf("bigger"), r.current().slotOf("big")
	join("a")
	join("b")
	g.Expect(heavy()).To(BeEmpty(), "each of two can have half")
	join("c")
	g.Expect(heavy()).To(Equal(map[int]string{bigger: "bigger", big: "big"}))
	g.Expect(r.Status().Slots[bigger].Weight).To(BeNumerically("~", 0.5, 0.02))
	for n := range uint64(1_000_000) {
		if name := fmt.Sprintf("%x", n*0x9e3779b97f4a7c15); r.current().slotOf(name) == big {
			r.current().heavy = []namespaceShare{{"big", 0.45}, {name, 0.4}}
			break
		}
	}
	g.Expect(r.current().heavy).To(HaveLen(2))
	g.Expect(heavy()).To(Equal(map[int]string{big: "big"}), "the heaviest of a slot")
}
