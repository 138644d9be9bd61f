package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
)

func rangesChangeWhileReplicasRun(x *fixture) {
	a, b, c := x.ranged("a"), x.ranged("b"), x.ranged("c")
	pass(30 * time.Second)
	x.Expect(a.slots()).To(Equal([]int{0, 0, 1, 1, 2, 2, 3, 3}))
	x.Expect(x.owned()).To(HaveLen(8))
	before := calls(2, a, b, c)
	x.divide(secondRanges)
	pass(4 * time.Second)
	for _, r := range []*ranged{a, b, c} {
		x.Expect(r.slots()).To(Equal([]int{0, 0, 0, 0, 2, 2, 3, 1}))
		x.Expect(r.logs.count("ranges of slots changed")).To(Equal(1))
	}
	x.Expect(x.owned()).To(HaveLen(8))
	x.Expect(x.versions()).To(Equal([]string{"2", "2", "", "2"}))
	for _, slot := range []int{0, 1, 3} {
		x.Expect(x.read()).To(ContainElement(fmt.Sprintf("slot %d: %v: its range changes", slot, shard.ErrMoved)))
		x.Expect(x.record(slot).Labels).To(HaveKeyWithValue("leader.homeostat.dev/record", "range"))
	}
	x.Expect(x.record(2).Labels).To(HaveKeyWithValue("leader.homeostat.dev/record", "slot"))

	x.divide(thirdRanges)
	pass(4 * time.Second)
	x.Expect(c.slots()).To(Equal([]int{0, 0, 0, 0, 2, 3, 3, 1}))
	x.Expect(x.versions()).To(Equal([]string{"2", "2", "3", "3"}))
	x.Expect(calls(2, a, b, c)).To(BeNumerically("<=", before+2), "in the second it did not change")

	d := x.ranged("d")
	pass(30 * time.Second)
	x.Expect(d.slots()).To(Equal(c.slots()), "one that joins has them at once")
	for _, r := range []*ranged{a, b, c, d} {
		r.end()
	}
}

func weightsChangeWithoutADrain(x *fixture) {
	a, b := x.ranged("a"), x.ranged("b")
	pass(30 * time.Second)
	x.movedSince()
	calls, moves := x.taken(0)+x.taken(7), len(x.read())
	x.divide(firstRanges)
	pass(time.Minute)
	x.Expect(x.movedSince()).To(BeZero())
	x.Expect(x.taken(0) + x.taken(7)).To(Equal(calls))
	x.Expect(x.read()).To(HaveLen(moves))
	x.divide(strings.Replace(firstRanges, "c000000000000000:1", "c000000000000000:3", 1))
	pass(time.Minute)
	x.Expect(x.movedSince()).To(Equal(2), "the heavy one is alone: the eighths of one slot have moved")
	x.Expect(a.logs.count("weights of slots changed")).To(Equal(2))
	x.Expect(a.logs.count("ranges of slots changed")).To(BeZero())
	a.end()
	b.end()
}

func TestRangesThatDoNotFollowAreLeftAlone(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.ranged("a"), x.ranged("b")
		pass(30 * time.Second)
		x.divide(secondRanges)
		pass(30 * time.Second)
		owned, divided := x.owned(), a.slots()
		for n, text := range []string{
			"", "nothing", firstRanges, strings.Replace(secondRanges, "e0", "f0", 1),
			strings.Replace(thirdRanges, "a000000000000000:1:3:3", "a000000000000000:1:3:2", 1), secondRanges + " ",
		} {
			x.divide(text)
			pass(30 * time.Second)
			x.Expect(x.owned()).To(Equal(owned), text)
			x.Expect(a.slots()).To(Equal(divided), text)
			x.Expect(a.logs.count("cannot take up the ranges")).To(Equal(n+1), text)
		}
		x.divide(thirdRanges)
		pass(30 * time.Second)
		x.Expect(b.slots()).To(Equal([]int{0, 0, 0, 0, 2, 3, 3, 1}))
		a.end()
		b.end()
	})
}

// A slot that is drained for long keeps the others whose ranges change from being taken, and no other slot.
func aChangeWaitsForAllOwners(x *fixture) {
	a, b, c := x.ranged("a"), x.ranged("b"), x.ranged("c")
	all := []*ranged{a, b, c}
	pass(30 * time.Second)
	owner := func(eighth int) *ranged {
		return all[slices.IndexFunc(all, func(r *ranged) bool { return r.name == x.owned()[eighth] })]
	}
	slow, before := owner(0), x.owned()
	slow.set(func(r *ranged) { r.drain = 2 * time.Minute })
	x.divide(secondRanges)
	pass(90 * time.Second)
	for n := range 8 {
		waits := slices.ContainsFunc(newOverOld[n], func(old int) bool { return before[old] == slow.name })
		if _, owned := x.owned()[n]; before[n] != slow.name && owned == waits {
			x.t.Errorf("eighth %d has an owner: %v; the slow one has what it waits for: %v", n, owned, waits)
		}
	}
	x.Expect(x.owned()).To(HaveKeyWithValue(0, slow.name))
	x.Expect(x.owned()).To(HaveKey(4))
	x.Expect(slow.slots()).To(Equal([]int{0, 0, 1, 1, 2, 2, 3, 3}), "it still works by the first")
	slow.set(func(r *ranged) { r.drain = 0 })
	if orphaned := owner(4); orphaned != slow {
		orphaned.die()
		pass(25 * time.Second)
		x.Expect(x.owned()).To(HaveKey(4), "an orphan does not wait")
		all = slices.DeleteFunc(all, func(r *ranged) bool { return r == orphaned })
	}
	pass(40 * time.Second)
	x.Expect(x.owned()).To(HaveLen(8))
	for _, r := range all {
		r.end()
	}
}

// A slot whose range changes has no work left: its orphan waits for the new ranges.
func TestASlotWhoseRangeChangesIsNotTakenMeanwhile(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.ranged("a"), x.ranged("b")
		pass(30 * time.Second)
		a.set(func(r *ranged) { r.drain = 90 * time.Second })
		before := map[int]int{}
		for _, slot := range []int{0, 1, 3} {
			before[slot] = calls(slot, a)
		}
		x.Expect(x.shares()).To(Equal(map[string]int{"a": 4, "b": 4}))
		x.divide(secondRanges)
		b.die()
		pass(80 * time.Second)
		for slot, n := range before {
			x.Expect(calls(slot, a)).To(Equal(n))
		}
		pass(30 * time.Second)
		x.Expect(x.owned()).To(HaveLen(8))
		a.end()
	})
}

// A claim that is under way is of the range that the slot had.
func TestAClaimUnderWayIsOfTheOldRange(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.ranged("a"), x.ranged("b")
		pass(30 * time.Second)
		open, before := make(chan struct{}), map[int]int{}
		for slot := range 4 {
			before[slot] = calls(slot, a)
		}
		a.link.Set(func(l *leaseapi.Link) { l.Cut = open })
		b.end()
		pass(time.Second)
		x.divide(secondRanges)
		pass(time.Second)
		a.link.Set(func(l *leaseapi.Link) { l.Cut = nil })
		close(open)
		pass(10 * time.Second)
		claimed := 0
		a.set(func(r *ranged) {
			for slot, n := range before {
				if calls := r.runs[slot]; slot != 2 && len(calls) == n+2 {
					x.Expect(calls[n]).To(Equal([]int{2 * slot, 2*slot + 1}))
					claimed++
				}
			}
		})
		x.Expect(claimed).To(BeNumerically(">", 0))
		x.Expect(x.owned()).To(HaveLen(8))
		a.end()
	})
}

// The other replicas raise the slots of a dead owner once it can no longer write.
func aChangeDoesNotWaitForTheDead(x *fixture) {
	a, b := x.ranged("a"), x.ranged("b")
	pass(30 * time.Second)
	before := x.owned()
	a.die()
	x.divide(secondRanges)
	pass(8 * time.Second)
	x.Expect(b.slots()).To(Equal([]int{0, 0, 0, 0, 2, 2, 3, 1}))
	for n, waitsFor := range newOverOld {
		waits := slices.ContainsFunc(waitsFor, func(old int) bool { return before[old] == "a" })
		if _, owned := x.owned()[n]; owned == waits {
			x.t.Errorf("eighth %d has an owner: %v; the dead one had what it waits for: %v", n, owned, waits)
		}
	}
	pass(12 * time.Second)
	x.Expect(x.owned()).To(HaveLen(8))
	b.end()
}

// filling is a cache that records its additions and removals.
type filling struct {
	slots.Cache

	has []sharding.ShardRangeRequirement
	err error
}

func (f *filling) AddShards(
	_ context.Context, shards ...sharding.ShardRangeRequirement,
) (func(...sharding.ShardRangeRequirement), error) {
	if f.err != nil {
		return nil, f.err
	}
	f.has = append(f.has, shards...)
	return func(gone ...sharding.ShardRangeRequirement) {
		f.has = slices.DeleteFunc(f.has, func(s sharding.ShardRangeRequirement) bool { return slices.Contains(gone, s) })
	}, nil
}

func TestWhatIsDroppedIsTheRangeThatWasAdded(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a")
		pass(10 * time.Second)
		cache := &filling{}
		drop, err := a.Fill(x.t.Context(), []slots.Cache{cache}, []int{2, 3})
		x.Expect(err).NotTo(HaveOccurred())
		x.divide(secondRanges)
		pass(10 * time.Second)
		again, err := a.Fill(x.t.Context(), []slots.Cache{cache}, []int{3})
		x.Expect(err).NotTo(HaveOccurred())
		drop(3)
		x.Expect(cache.has).To(HaveLen(2))
		drop(2)
		x.Expect(cache.has).To(ConsistOf(HaveField("End", "0xe000000000000000")))
		again(3)
		x.Expect(cache.has).To(BeEmpty())
		a.end()
	})
}

func TestCachesAreFilledTogetherOrNotAtAll(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a")
		pass(10 * time.Second)
		cache, broken := &filling{}, &filling{err: errForbidden}
		_, err := a.Fill(x.t.Context(), []slots.Cache{cache, broken}, []int{2, 3})
		x.Expect(err).To(MatchError(errForbidden))
		x.Expect(cache.has).To(BeEmpty())
		a.end()
	})
}

// While ranges change no replica works on them for longer than while slots move.
func TestDeletedLooksFurtherBackForRangesThatHaveChanged(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, cache := x.ranged("a"), &aging{began: time.Now()}
		stop := x.run(func(ctx context.Context) error { a.Remember(ctx, cache, time.Minute); return nil })
		pass(time.Hour)
		ago := func(slot int) int {
			x.Expect(a.Deleted(x.t.Context(), cache, []int{slot}, time.Minute, nil)).To(Succeed())
			var asked int
			_, err := fmt.Sscan(cache.asked, &asked)
			x.Expect(err).NotTo(HaveOccurred())
			return int(time.Since(cache.began).Seconds()) - asked
		}
		x.Expect(ago(3)).To(BeNumerically("~", 67, 8))
		x.divide(secondRanges)
		pass(10 * time.Second)
		x.Expect(ago(2)).To(BeNumerically("~", 67, 8))
		x.Expect(ago(3)).To(BeNumerically("~", 127, 8))
		stop()
		a.end()
	})
}

func TestRangesChangeWhileReplicasRun(t *testing.T) { inBubble(t, rangesChangeWhileReplicasRun) }
func TestWeightsChangeWithoutADrain(t *testing.T)   { inBubble(t, weightsChangeWithoutADrain) }
func TestAChangeWaitsForAllOwners(t *testing.T)     { inBubble(t, aChangeWaitsForAllOwners) }
func TestAChangeDoesNotWaitForTheDead(t *testing.T) { inBubble(t, aChangeDoesNotWaitForTheDead) }
