package shard

import (
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// Of four slots the first has the first half now, and two others halves of the last quarter.
func TestANewRangeWaitsForOwnersThatOverlapIt(t *testing.T) {
	const quarter = uint64(1) << 62
	first := divide(nil, 4)
	next := first.with([]uint64{0, 2 * quarter, 3 * quarter, 3*quarter + quarter/2}, []int{0, 2, 3, 1}, make([]float64, 4))
	first.uid, next.uid = "u", "u"
	raised := func(slot int) *coordinationv1.Lease {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		setVersion(lease, next.versionText(slot))
		return lease
	}
	late := func(holder, mark string) *coordinationv1.Lease {
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		annotate(lease, rangeAnnotation, mark)
		return lease
	}
	for name, c := range map[string]struct {
		third  *coordinationv1.Lease // the record of slot 3, which had the last quarter
		vacant []bool                // slots 0, 1 and 3
	}{
		"raised":              {raised(3), []bool{true, true, true}},
		"with its owner":      {late("a_1", first.mark(3)), []bool{true, false, false}},
		"without owner":       {late(unowned, first.mark(3)), []bool{false, false, false}},
		"not there":           {nil, []bool{false, false, false}},
		"without mark":        {late("a_1", ""), []bool{false, false, false}},
		"of other ranges":     {late("a_1", "v c000000000000000-ffffffffffffffff"), []bool{false, false, false}},
		"with an edited mark": {late("a_1", "u x-y"), []bool{false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := &view{slots: make([]record.Observation, 4)}
			for slot, lease := range map[int]*coordinationv1.Lease{0: raised(0), 1: raised(1), 3: c.third} {
				v.slots[slot].Lease = lease
			}
			g.Expect(next.moved()).To(Equal([]int{0, 1, 3}))
			for n, slot := range next.moved() {
				g.Expect(next.vacant(v, slot)).To(Equal(c.vacant[n]), "slot %d", slot)
			}
		})
	}
}
