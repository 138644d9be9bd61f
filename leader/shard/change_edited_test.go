package shard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
)

// A replica that does not see the configuration leaves the slots alone whose records are of a later one.
func TestASlotOfAVersionThatIsNotKnownIsNotTaken(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a")
		pass(10 * time.Second)
		config, err := x.api.Get("test")
		x.Expect(err).NotTo(HaveOccurred())
		config.Labels = nil
		_, err = x.api.Update(config)
		x.Expect(err).NotTo(HaveOccurred())
		for times := range 2 {
			l := x.record(1)
			l.Spec.HolderIdentity = nil
			l.Annotations = map[string]string{"leader.homeostat.dev/division": "2/" + string(config.UID)}
			_, err = x.api.Update(l)
			x.Expect(err).NotTo(HaveOccurred())
			pass(leaseDuration - 5*time.Second)
			x.Expect(a.logs.count("ranges are older")).To(Equal(times), "this replica may have yet to see later ones")
			pass(time.Minute)
			x.Expect(calls(1, a)).To(Equal(1 + times))
			x.Expect(x.owned()).To(HaveLen(6))
			x.Expect(a.logs.count("ranges are older")).To(Equal(times+1), "once each time")
			l = x.record(1)
			delete(l.Annotations, "leader.homeostat.dev/division")
			_, err = x.api.Update(l)
			x.Expect(err).NotTo(HaveOccurred())
			pass(10 * time.Second)
			x.Expect(x.owned()).To(HaveLen(8))
		}
		a.end()
	})
}

func TestAVersionThatAnotherClientHasEditedIsGivenUp(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a")
		pass(10 * time.Second)
		x.divide(secondRanges)
		pass(10 * time.Second)
		for _, slot := range []int{0, 3} {
			l, before := x.record(slot), calls(slot, a)
			delete(l.Annotations, "leader.homeostat.dev/division")
			_, err := x.api.Update(l)
			x.Expect(err).NotTo(HaveOccurred())
			pass(10 * time.Second)
			x.Expect(calls(slot, a)).To(Equal(before + 1))
			x.Expect(x.versions()).To(Equal([]string{"2", "2", "", "2"}))
			x.Expect(x.owned()).To(HaveLen(8))
		}
		x.api.Delete("test-slot-1")
		pass(10 * time.Second)
		x.Expect(x.versions()).To(Equal([]string{"2", "2", "", "2"}))
		b := x.ranged("b")
		pass(30 * time.Second)
		for slot := range 4 {
			x.api.Delete(fmt.Sprint("test-slot-", slot))
		}
		pass(10 * time.Second)
		x.Expect(x.versions()).To(Equal([]string{"2", "2", "", "2"}))
		for _, r := range []*ranged{a, b} {
			x.Expect(r.logs.count("divides the keys in another way")).To(BeZero(), "records that do not exist say nothing")
		}
		a.end()
		b.end()
	})
}

// To change the configuration, all replicas are stopped and its record is deleted; versions then start from one again.
func TestVersionsOfARecordThatWasDeletedMeanNothing(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a")
		pass(10 * time.Second)
		x.divide(secondRanges)
		pass(10 * time.Second)
		a.end()
		x.api.Delete("test")
		b, c := x.ranged("b"), x.ranged("c")
		pass(30 * time.Second)
		x.Expect(b.slots()).To(Equal([]int{0, 0, 1, 1, 2, 2, 3, 3}))
		x.Expect(x.owned()).To(HaveLen(8))
		x.divide(secondRanges)
		pass(10 * time.Second)
		x.Expect(c.slots()).To(Equal([]int{0, 0, 0, 0, 2, 2, 3, 1}))
		x.Expect(x.owned()).To(HaveLen(8))
		config, err := x.api.Get("test")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(x.record(3).Annotations).To(HaveKeyWithValue("leader.homeostat.dev/division", "2/"+string(config.UID)))
		b.end()
		c.end()
	})
}

// If the record of the configuration is deleted without stopping all replicas, no namespace gets two owners: a new
// replica waits for those that still use the old division, and these end.
func TestAConfigurationThatIsReplacedWhileReplicasRunEndsThem(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.ranged("a"), x.ranged("b")
		pass(30 * time.Second)
		a.set(func(r *ranged) { r.drain = 20 * time.Second })
		b.set(func(r *ranged) { r.drain = 20 * time.Second })
		x.Expect(x.owned()).To(HaveLen(8))
		x.api.Delete("test")
		config := leaseapi.Object("test")
		config.Labels = map[string]string{"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "config"}
		config.Annotations = map[string]string{
			"leader.homeostat.dev/slots": "4", "leader.homeostat.dev/hash": "fnv1a-64",
			"leader.homeostat.dev/by":     "range of namespaces",
			"leader.homeostat.dev/ranges": "0:1 e000000000000000:1 f000000000000000:1 f800000000000000:1",
		}
		_, err := x.api.Create(config)
		x.Expect(err).NotTo(HaveOccurred())
		c := x.ranged("c")
		pass(2 * time.Minute)
		x.Expect(x.fault).To(BeEmpty())
		x.Expect(x.shares()).To(Equal(map[string]int{"c": 8}))
		x.Expect(a.wait()).To(MatchError(shard.ErrConfig))
		x.Expect(b.wait()).To(MatchError(shard.ErrConfig))
		c.end()
	})
}

// Of ranges that another client has edited, those that run take no notice, and one that starts waits for them.
func TestRangesThatAreEditedWhileReplicasRunGiveNoNamespaceTwoOwners(t *testing.T) {
	for name, texts := range map[string][]string{
		"first version": {firstRanges, strings.Replace(firstRanges, "c0", "e0", 1)},
		"second":        {secondRanges, strings.Replace(secondRanges, "e0", "f0", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				a, b := x.ranged("a"), x.ranged("b")
				pass(30 * time.Second)
				x.divide(texts[0])
				pass(30 * time.Second)
				x.divide(texts[1])
				c := x.ranged("c")
				pass(time.Minute)
				x.Expect(x.fault).To(BeEmpty())
				x.Expect(x.owned()).To(HaveLen(8))
				for r, times := range map[*ranged]int{a: 0, b: 0, c: 1} {
					x.Expect(r.logs.count("divides the keys in another way")).To(Equal(times), r.name)
				}
				a.end()
				pass(time.Minute)
				x.Expect(x.fault).To(BeEmpty())
				x.Expect(x.shares()).To(Equal(map[string]int{"b": 8}))
				b.end()
				pass(time.Minute)
				x.Expect(x.shares()).To(Equal(map[string]int{"c": 8}))
				c.end()
			})
		})
	}
}

// A replica without slots may be about to claim a slot that the last owner with the ranges before an edit releases, by
// those same ranges.
func TestTheEndOfAnOwnerThatDividesOtherwiseIsBelievedLate(t *testing.T) {
	for second := range 5 {
		t.Run(fmt.Sprintf("%d s after the other has come", second), func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				a := x.ranged("a")
				pass(30 * time.Second)
				b := x.ranged("b")
				pass(100 * time.Millisecond)
				x.divide(strings.Replace(firstRanges, "c0", "e0", 1))
				c := x.ranged("c")
				pass(time.Duration(second) * time.Second)
				x.Expect(x.shares()).To(Equal(map[string]int{"a": 8}))
				a.end()
				pass(time.Minute)
				x.Expect(x.fault).To(BeEmpty())
				x.Expect(x.shares()).To(Equal(map[string]int{"b": 8}))
				b.end()
				pass(time.Minute)
				x.Expect(x.shares()).To(Equal(map[string]int{"c": 8}))
				c.end()
			})
		})
	}
}

// A configuration that is restored from a backup may be older than the ranges of slots.
func TestSlotsOfLaterRangesThanTheRecordedOnesAreFreeWhenTheConfigurationIsDeleted(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a")
		pass(10 * time.Second)
		x.divide(secondRanges)
		pass(10 * time.Second)
		a.end()
		x.divide(firstRanges)
		b := x.ranged("b")
		pass(time.Minute)
		x.Expect(x.owned()).To(Equal(map[int]string{4: "b", 5: "b"}))
		b.end()
		x.api.Delete("test")
		c := x.ranged("c")
		pass(time.Minute)
		x.Expect(x.shares()).To(Equal(map[string]int{"c": 8}))
		c.end()
	})
}
