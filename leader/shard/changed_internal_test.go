package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// altered returns a division in which two ranges, which lie side by side, have become one, and a third has become two.
func altered(d *division, merged, split int) *division {
	bounds, slots := slices.Clone(d.bounds), slices.Clone(d.slots)
	free := slots[merged+1]
	middle := bounds[split]/2 + d.rangeOf(slots[split]).Last/2
	bounds, slots = slices.Insert(bounds, split+1, middle), slices.Insert(slots, split+1, free)
	if split < merged {
		merged++
	}
	bounds, slots = slices.Delete(bounds, merged+1, merged+2), slices.Delete(slots, merged+1, merged+2)
	return d.with(bounds, slots, d.weights)
}

func TestADivisionCountsTheChangesOfItsRanges(t *testing.T) {
	g := NewWithT(t)
	d := divide(nil, 8)
	g.Expect(d.moved()).To(BeEmpty(), "the first")
	weights := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	heavier := d.with(d.bounds, d.slots, weights)
	g.Expect(heavier.version).To(Equal(1))
	g.Expect(heavier.moved()).To(BeEmpty())
	g.Expect(heavier.String()).To(HavePrefix("0:1 2000000000000000:2 "), "older replicas read it")

	second := altered(heavier, 2, 6)
	g.Expect(second.version).To(Equal(2))
	g.Expect(second.slots).To(Equal([]int{0, 1, 2, 4, 5, 6, 3, 7}))
	g.Expect(second.moved()).To(Equal([]int{2, 3, 6}))
	g.Expect(second.rangeOf(2)).To(Equal(keyspace.Range{First: 2 << 61, Last: 4<<61 - 1}))
	g.Expect(second.rangeOf(6)).To(Equal(keyspace.Range{First: 6 << 61, Last: 13<<60 - 2}))
	g.Expect(second.rangeOf(3)).To(Equal(keyspace.Range{First: 13<<60 - 1, Last: 7<<61 - 1}))
	g.Expect(second.slotOf(7<<61 - 1)).To(Equal(3))
	g.Expect(heavier.moved()).To(BeEmpty(), "it is another division")

	third := altered(second, 0, 7)
	g.Expect(third.version).To(Equal(3))
	g.Expect(third.moved()).To(Equal([]int{0, 1, 7}))
	g.Expect(third.since).To(Equal([]int{3, 3, 2, 2, 1, 1, 2, 3}))
}

func TestADivisionThatHasChangedIsReadAsItWasWritten(t *testing.T) {
	for _, slots := range []int{3, 64, 1024} {
		g := NewWithT(t)
		first := divide(nil, slots)
		d := &first
		random := rand.New(rand.NewPCG(3, uint64(slots)))
		for range 40 {
			merged := random.IntN(slots - 1)
			split := random.IntN(slots)
			if split == merged || split == merged+1 {
				continue
			}
			d = altered(d, merged, split)
			again, err := parseDivision(d.String(), slots)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect([]any{again.version, again.since, again.bounds, again.slots, again.weights}).
				To(Equal([]any{d.version, d.since, d.bounds, d.slots, d.weights}))
			g.Expect(len(d.String())).To(BeNumerically("<", 48*slots), "what is recorded")
		}
		all := keyspace.Set(nil)
		for slot := range slots {
			all = keyspace.Union(all, keyspace.Set{d.rangeOf(slot)})
			g.Expect(d.slotOf(d.rangeOf(slot).First)).To(Equal(slot))
			g.Expect(d.slotOf(d.rangeOf(slot).Last)).To(Equal(slot))
		}
		g.Expect(all.IsWhole()).To(BeTrue())
	}
}

func TestRangesOfLaterVersionsThatAreNoneAreRefused(t *testing.T) {
	g := NewWithT(t)
	_, err := parseDivision("0:1:1:2 5:1:0:1", 2)
	g.Expect(err).NotTo(HaveOccurred())
	for _, text := range []string{
		"0:1:1:2 5:1:1:2", "0:1:1:2 5:1:2:2", "0:1:1:2 5:1:-1:2", "0:1:1:2 5:1:0:0", "0:1:1:2 5:1:0:-1", "0:1:1:2 5:1:0",
		"0:1:1:2 5:1:0:1:1", "0:1 5:1:1:2", "0:1:0:1 5:1:1:1", "0:NaN 5:1", "0:Inf 5:1", "0:-1 5:1", "0:1:1:2  5:1:0:1",
		"0:1:01:2 5:1:0:1", "0:1:1:99999999999 5:1:0:1", "0:1:1:2 0:1:0:1", "1:1:1:2 5:1:0:1",
	} {
		_, err := parseDivision(text, 2)
		g.Expect(err).To(MatchError(ErrConfig), text)
	}
}

// A text that parses is a division of all hashes, and is written back unchanged.
func FuzzParseDivision(f *testing.F) {
	first := divide(nil, 4)
	f.Add(first.String())
	f.Add(altered(&first, 0, 3).String())
	f.Add("0:1 5:NaN 6:1 7:1")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDivision(text, 4)
		if err != nil {
			return
		}
		g := NewWithT(t)
		g.Expect(d.String()).To(Equal(text))
		g.Expect(d.slotOf(0)).To(Equal(d.slots[0]))
		for slot := range 4 {
			r := d.rangeOf(slot)
			g.Expect(d.slotOf(r.First)).To(Equal(slot), fmt.Sprint(r))
			g.Expect(d.slotOf(r.Last)).To(Equal(slot), fmt.Sprint(r))
			g.Expect(d.since[slot]).To(And(BeNumerically(">=", 1), BeNumerically("<=", d.version)))
		}
	})
}
