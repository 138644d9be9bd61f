package leader_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/leader"
)

func TestSlotRecordDeletedByHandIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a, b := startShards(t, api, o, "a"), startShards(t, api, o, "b")
		pass(time.Minute)
		o.movedSince()
		takes := o.taken(9)
		api.delete("test-slot-9")
		pass(10 * time.Second)
		g.Expect(o.taken(9)).To(Equal(takes+1), "given up and written down again")
		g.Expect(o.movedSince()).To(BeZero())
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end(t)
		b.end(t)
		g.Expect(o.fault).To(BeEmpty())
	})
}

func TestMemberRecordDeletedByHandEndsTheMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a := startShards(t, api, o, "a")
		pass(30 * time.Second)
		open := make(chan struct{})
		a.link.set(func(l *link) { l.cut = open })
		api.delete("test-member-a")
		b := startShards(t, api, o, "b") // has never seen the member a
		pass(14 * time.Second)
		g.Expect(o.shares()).NotTo(HaveKey("b"))
		pass(10 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"b": 64}))
		a.link.set(func(l *link) { l.cut = nil })
		close(open)
		pass(30 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end(t)
		b.end(t)
		g.Expect(o.fault).To(BeEmpty())
	})
}

func TestRecordsDeletedByHandAreNotTakenWhileTheirOwnerMayWork(t *testing.T) {
	for _, name := range []string{"test-member-a", "test-slot-%d"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				api, o := newLeaseAPI(t), newOwners()
				a, b := startShards(t, api, o, "a"), startShards(t, api, o, "b")
				pass(time.Minute)
				open := make(chan struct{})
				a.link.set(func(l *link) { l.cut, l.stall = open, open })
				for slot, owner := range o.owned() {
					if owner == "a" {
						name = strings.Replace(name, "%d", fmt.Sprint(slot), 1)
					}
				}
				api.delete(name)
				pass(30 * time.Second)
				a.link.set(func(l *link) { l.cut, l.stall = nil, nil })
				close(open)
				pass(30 * time.Second)
				g.Expect(o.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
				a.end(t)
				b.end(t)
				g.Expect(o.fault).To(BeEmpty())
			})
		})
	}
}

func TestSlotsOfAMemberThatMayBeDeadAreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a, b := startShards(t, api, o, "a"), startShards(t, api, o, "b")
		pass(30 * time.Second)
		open := make(chan struct{})
		a.link.set(func(l *link) { l.cut, l.stall = open, open })
		pass(14 * time.Second)
		g.Expect(states(a.Shards)).To(Equal(map[string]int{"elsewhere": 32, "claimable": 32}))
		g.Expect(a.String()).To(MatchRegexp(`^0 of 64 slots are here; members: .*; 32 are claimable`))
		pass(10 * time.Second)
		g.Expect(states(a.Shards)).To(Equal(map[string]int{"unavailable": 32, "claimable": 32}))
		g.Expect(a.String()).To(ContainSubstring("; 32 are unavailable"))
		a.link.set(func(l *link) { l.cut, l.stall = nil, nil })
		close(open)
		pass(30 * time.Second)
		a.end(t)
		b.end(t)
		g.Expect(o.fault).To(BeEmpty())
	})
}

func TestShortVisitMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a := startShards(t, api, o, "a")
		pass(30 * time.Second)
		b := startShards(t, api, o, "b")
		pass(3 * time.Second)
		b.end(t)
		pass(time.Minute)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 64}))
		g.Expect(o.movedSince()).To(BeZero())
		a.end(t)
	})
}

func TestStalledWatchIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a := startShards(t, api, o, "a")
		pass(30 * time.Second)
		stall := make(chan struct{})
		a.link.set(func(l *link) { l.stall = stall })
		b := startShards(t, api, o, "b")
		pass(time.Minute)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		close(stall)
		a.end(t)
		b.end(t)
	})
}

func TestReplicaThatSeesNoMemberTakesWhatIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		l := api.link(1)
		stall := make(chan struct{})
		l.slow, l.stall = 400*time.Millisecond, stall
		a := newShards(t, l, "a", &leader.ShardOptions{Slots: 512})
		ctx, stop := context.WithCancel(t.Context())
		wait := background(func() error { return a.Run(ctx, o.work("a", 0)) })
		pass(14 * time.Second) // it has not heard of its own renewals for the last 7 s
		g.Expect(len(o.owned())).To(BeNumerically(">", 400))
		close(stall)
		pass(10 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 512}))
		stop()
		g.Expect(wait()).To(Succeed())
	})
}

func TestLateWatchDoesNotBuryTheLiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a, b := startShards(t, api, o, "a"), startShards(t, api, o, "b")
		pass(time.Minute)
		o.movedSince()
		stall := make(chan struct{})
		a.link.set(func(l *link) { l.stall = stall })
		pass(10 * time.Minute)
		a.link.set(func(l *link) { l.stall = nil })
		close(stall)
		pass(time.Minute)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		g.Expect(o.movedSince()).To(BeZero())
		a.end(t)
		b.end(t)
		g.Expect(o.fault).To(BeEmpty())
	})
}

// TestEachChangeMovesAtMostItsFairShare changes the members one at a time, at
// random, and counts the slots that got another owner.
func TestEachChangeMovesAtMostItsFairShare(t *testing.T) {
	for _, seed := range []int64{1, 2, 7} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			r := rand.New(rand.NewSource(seed))
			api, o := newLeaseAPI(t), newOwners()
			alive := map[string]*shardReplica{}
			for change := range 20 {
				names := slices.Sorted(maps.Keys(alive))
				moves, what := 0, ""
				switch {
				case len(names) < 2 || len(names) < 8 && r.Intn(2) == 0:
					name := fmt.Sprint("m", change)
					alive[name] = startShards(t, api, o, name)
					moves, what = 64/len(alive), "joins"
				case r.Intn(2) == 0:
					name := names[r.Intn(len(names))]
					moves, what = o.shares()[name], "leaves"
					alive[name].end(t)
					delete(alive, name)
				default:
					name := names[r.Intn(len(names))]
					moves, what = o.shares()[name], "dies"
					alive[name].die()
					delete(alive, name)
				}
				pass(time.Minute)
				shares := slices.Sorted(maps.Values(o.shares()))
				n := len(shares)
				g.Expect(n).To(Equal(len(alive)))
				g.Expect(shares[n-1]-shares[0]).To(BeNumerically("<=", 1), "seed %d: shares are %v", seed, shares)
				g.Expect(o.movedSince()).To(BeNumerically("<=", moves), "seed %d: one of %d %s", seed, n, what)
			}
			for _, r := range alive {
				r.end(t)
			}
			g.Expect(o.fault).To(BeEmpty())
		})
	}
}
