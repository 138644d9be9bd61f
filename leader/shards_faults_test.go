package leader_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/leader"
)

func TestSlotRecordDeletedByHandIsGivenUp(t *testing.T) {
	inTrial(t, func(w *trial) {
		a, b := w.shards("a", nil), w.shards("b", nil)
		pass(time.Minute)
		w.movedSince()
		takes := w.taken(9)
		w.api.delete("test-slot-9")
		pass(10 * time.Second)
		w.Expect(w.taken(9)).To(Equal(takes+1), "given up and written down again")
		w.Expect(w.movedSince()).To(BeZero())
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end()
		b.end()
	})
}

func TestMemberRecordDeletedByHandEndsTheMembership(t *testing.T) {
	inTrial(t, func(w *trial) {
		a := w.shards("a", nil)
		pass(30 * time.Second)
		open := make(chan struct{})
		a.link.set(func(l *link) { l.cut = open })
		w.api.delete("test-member-a")
		b := w.shards("b", nil) // has never seen the member a
		pass(14 * time.Second)
		w.Expect(w.shares()).NotTo(HaveKey("b"))
		pass(10 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"b": 64}))
		a.link.set(func(l *link) { l.cut = nil })
		close(open)
		pass(30 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end()
		b.end()
	})
}

func TestRecordsDeletedByHandAreNotTakenWhileTheirOwnerMayWork(t *testing.T) {
	for _, name := range []string{"test-member-a", "test-slot-%d"} {
		t.Run(name, func(t *testing.T) {
			inTrial(t, func(w *trial) {
				a, b := w.shards("a", nil), w.shards("b", nil)
				pass(time.Minute)
				open := make(chan struct{})
				a.link.set(func(l *link) { l.cut, l.stall = open, open })
				for slot, owner := range w.owned() {
					if owner == "a" {
						name = strings.Replace(name, "%d", fmt.Sprint(slot), 1)
					}
				}
				w.api.delete(name)
				pass(30 * time.Second)
				a.link.set(func(l *link) { l.cut, l.stall = nil, nil })
				close(open)
				pass(30 * time.Second)
				w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
				a.end()
				b.end()
			})
		})
	}
}

func TestSlotsOfAMemberThatMayBeDeadAreUnavailable(t *testing.T) {
	inTrial(t, func(w *trial) {
		a, b := w.shards("a", nil), w.shards("b", nil)
		pass(30 * time.Second)
		open := make(chan struct{})
		a.link.set(func(l *link) { l.cut, l.stall = open, open })
		pass(14 * time.Second)
		w.Expect(states(a.Shards)).To(Equal(map[string]int{"elsewhere": 32, "claimable": 32}))
		w.Expect(a.String()).To(MatchRegexp(`^0 of 64 slots are here; members: .*; 32 are claimable`))
		pass(10 * time.Second)
		w.Expect(states(a.Shards)).To(Equal(map[string]int{"unavailable": 32, "claimable": 32}))
		w.Expect(a.String()).To(ContainSubstring("; 32 are unavailable"))
		a.link.set(func(l *link) { l.cut, l.stall = nil, nil })
		close(open)
		pass(30 * time.Second)
		a.end()
		b.end()
	})
}

func TestShortVisitMovesNothing(t *testing.T) {
	inTrial(t, func(w *trial) {
		a := w.shards("a", nil)
		pass(30 * time.Second)
		b := w.shards("b", nil)
		pass(3 * time.Second)
		b.end()
		pass(time.Minute)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 64}))
		w.Expect(w.movedSince()).To(BeZero())
		a.end()
	})
}

func TestStalledWatchIsBroken(t *testing.T) {
	inTrial(t, func(w *trial) {
		a := w.shards("a", nil)
		pass(30 * time.Second)
		stall := make(chan struct{})
		a.link.set(func(l *link) { l.stall = stall })
		b := w.shards("b", nil)
		pass(time.Minute)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		close(stall)
		a.end()
		b.end()
	})
}

func TestReplicaThatSeesNoMemberTakesWhatIsFree(t *testing.T) {
	inTrial(t, func(w *trial) {
		l := w.api.link(1)
		stall := make(chan struct{})
		l.slow, l.stall = 400*time.Millisecond, stall
		a := newShards(w.t, l, "a", &leader.ShardOptions{Slots: 512})
		stop := w.run(func(ctx context.Context) error { return a.Run(ctx, w.work("a", 0)) })
		pass(14 * time.Second) // it has not heard of its own renewals for the last 7 s
		w.Expect(len(w.owned())).To(BeNumerically(">", 400))
		close(stall)
		pass(10 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 512}))
		stop()
	})
}

func TestLateWatchDoesNotBuryTheLiving(t *testing.T) {
	inTrial(t, func(w *trial) {
		a, b := w.shards("a", nil), w.shards("b", nil)
		pass(time.Minute)
		w.movedSince()
		stall := make(chan struct{})
		a.link.set(func(l *link) { l.stall = stall })
		pass(10 * time.Minute)
		a.link.set(func(l *link) { l.stall = nil })
		close(stall)
		pass(time.Minute)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		w.Expect(w.movedSince()).To(BeZero())
		a.end()
		b.end()
	})
}

// TestEachChangeMovesAtMostItsFairShare changes the members one at a time, at
// random, and counts the slots that got another owner.
func TestEachChangeMovesAtMostItsFairShare(t *testing.T) {
	changeMembers(t, 1, 2, 7)
}

func changeMembers(t *testing.T, seeds ...int64) {
	t.Helper()
	for _, seed := range seeds {
		inTrial(t, func(w *trial) {
			r := rand.New(rand.NewSource(seed))
			alive := map[string]*shardReplica{}
			for change := range 20 {
				names := slices.Sorted(maps.Keys(alive))
				moves, what := 0, ""
				switch {
				case len(names) < 2 || len(names) < 8 && r.Intn(2) == 0:
					name := fmt.Sprint("m", change)
					alive[name] = w.shards(name, nil)
					moves, what = 64/len(alive), "joins"
				case r.Intn(2) == 0:
					name := names[r.Intn(len(names))]
					moves, what = w.shares()[name], "leaves"
					alive[name].end()
					delete(alive, name)
				default:
					name := names[r.Intn(len(names))]
					moves, what = w.shares()[name], "dies"
					alive[name].die()
					delete(alive, name)
				}
				pass(time.Minute)
				shares := slices.Sorted(maps.Values(w.shares()))
				n := len(shares)
				w.Expect(n).To(Equal(len(alive)))
				w.Expect(shares[n-1]-shares[0]).To(BeNumerically("<=", 1), "seed %d: shares are %v", seed, shares)
				w.Expect(w.movedSince()).To(BeNumerically("<=", moves), "seed %d: one of %d %s", seed, n, what)
			}
			for _, r := range alive {
				r.end()
			}
		})
	}
}
