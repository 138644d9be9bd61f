package shard

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// Of four slots the first has the first half from the second division on, and two others halves of the last quarter. In
// the third, the third slot is halved, and its second half and the half beside it are one.
func TestARangeWaitsForEarlierOnesThatOverlapIt(t *testing.T) {
	const quarter, half = uint64(1) << 62, uint64(1) << 61
	first := divide(nil, 4)
	second := first.with([]uint64{0, 2 * quarter, 3 * quarter, 3*quarter + half}, []int{0, 2, 3, 1}, make([]float64, 4))
	third := second.with([]uint64{0, 2 * quarter, 2*quarter + half, 3*quarter + half}, []int{0, 2, 3, 1}, make([]float64, 4))
	first.uid, second.uid, third.uid = "u", "u", "u"
	g := NewWithT(t)
	g.Expect([][]int{second.since, third.since}).To(Equal([][]int{{2, 2, 1, 2}, {2, 2, 3, 3}}))
	stamped := func(by *division, slot int) *coordinationv1.Lease {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		by.stamp(slot).write(lease)
		return lease
	}
	marked := func(holder, mark string) *coordinationv1.Lease {
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		annotate(lease, rangeAnnotation, mark)
		return lease
	}
	for name, c := range map[string]struct {
		of    *division
		last  *coordinationv1.Lease // the record of slot 3, which has the last quarter in the first division
		waits []int
	}{
		"raised":                                {third, stamped(third, 3), nil},
		"with its owner":                        {second, marked("a_1", first.stamp(3).mark), []int{1, 3}},
		"with its owner, two versions late":     {third, marked("a_1", first.stamp(3).mark), []int{1, 3}},
		"without owner":                         {second, marked(unowned, first.stamp(3).mark), []int{1, 3}},
		"without owner, late by one":            {third, stamped(second, 3), []int{3}},
		"not there":                             {second, nil, []int{0, 1, 3}},
		"not there after two changes":           {third, nil, []int{0, 1, 3}},
		"without mark":                          {second, marked("a_1", ""), []int{0, 1, 3}},
		"without mark after two changes":        {third, marked("a_1", ""), []int{0, 1, 3}},
		"of other ranges":                       {second, marked("a_1", "v c000000000000000-ffffffffffffffff"), []int{0, 1, 3}},
		"with an edited mark":                   {second, marked("a_1", "u x-y"), []int{0, 1, 3}},
		"with an edited mark after two changes": {third, marked("a_1", "u x-y"), []int{0, 1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &view{slots: make([]record.Observation, 4)}
			for slot := range 3 {
				v.slots[slot].Lease = stamped(c.of, slot)
			}
			v.slots[3].Lease = c.last
			var waits []int
			for _, slot := range []int{0, 1, 3} {
				if !c.of.vacant(v, slot) {
					waits = append(waits, slot)
				}
			}
			NewWithT(t).Expect(waits).To(Equal(c.waits))
		})
	}
}

// A replica that is late by one change can claim a record by the range that it was raised to, whatever its last owner.
func TestARecordThatIsRaisedSaysWithWhichRangeItCanBeClaimed(t *testing.T) {
	g := NewWithT(t)
	first := divide(nil, 2)
	next := first.with([]uint64{0, 1 << 62}, []int{0, 1}, make([]float64, 2))
	first.uid, next.uid = "u", "u"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	first.stamp(1).write(lease)
	for quiet, of := range map[time.Duration]*division{0: next, time.Second: &first} {
		had, known := next.marked(released(lease, quiet, time.Now(), next.stamp(1)))
		g.Expect(known).To(BeTrue())
		g.Expect(had).To(Equal(of.rangeOf(1)), "after %v", quiet)
	}
}
