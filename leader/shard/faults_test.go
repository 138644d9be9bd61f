package shard_test

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat/homeostat/internal/proof/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
)

func TestSlotRecordDeletedByHandIsGivenUp(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(time.Minute)
		x.movedSince()
		takes := x.taken(9)
		x.api.Delete("test-slot-9")
		pass(10 * time.Second)
		x.Expect(x.taken(9)).To(Equal(takes+1), "given up and written down again")
		x.Expect(x.movedSince()).To(BeZero())
		x.Expect(x.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end()
		b.end()
	})
}

func TestMemberRecordDeletedByHandEndsTheMembership(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(30 * time.Second)
		open := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Cut = open })
		x.api.Delete("test-member-a")
		b := x.shards("b", nil) // has never seen the member a
		pass(14 * time.Second)
		x.Expect(x.shares()).NotTo(HaveKey("b"))
		pass(10 * time.Second)
		x.Expect(x.shares()).To(Equal(map[string]int{"b": 64}))
		a.link.Set(func(l *leaseapi.Link) { l.Cut = nil })
		close(open)
		pass(30 * time.Second)
		x.Expect(x.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end()
		b.end()
	})
}

func TestRecordsDeletedByHandAreNotTakenWhileTheirOwnerMayWork(t *testing.T) {
	for _, name := range []string{"test-member-a", "test-slot-%d"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				a, b := x.shards("a", nil), x.shards("b", nil)
				pass(time.Minute)
				open := make(chan struct{})
				a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = open, open })
				for slot, owner := range x.owned() {
					if owner == "a" {
						name = strings.Replace(name, "%d", fmt.Sprint(slot), 1)
					}
				}
				x.api.Delete(name)
				pass(30 * time.Second)
				a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = nil, nil })
				close(open)
				pass(30 * time.Second)
				x.Expect(x.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
				a.end()
				b.end()
			})
		})
	}
}

func TestSlotsOfAMemberThatMayBeDeadAreUnavailable(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(30 * time.Second)
		open := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = open, open })
		pass(14 * time.Second)
		x.Expect(states(a.Shards)).To(Equal(map[shard.State]int{shard.Elsewhere: 32, shard.Claimable: 32}))
		x.Expect(a.String()).To(MatchRegexp(`^0 of 64 slots are here; members: .*; 32 are claimable`))
		pass(10 * time.Second)
		x.Expect(states(a.Shards)).To(Equal(map[shard.State]int{shard.Unavailable: 32, shard.Claimable: 32}))
		x.Expect(a.String()).To(ContainSubstring("; 32 are unavailable"))
		a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = nil, nil })
		close(open)
		pass(30 * time.Second)
		a.end()
		b.end()
	})
}

func TestShortVisitMovesNothing(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(30 * time.Second)
		b := x.shards("b", nil)
		pass(3 * time.Second)
		b.end()
		pass(time.Minute)
		x.Expect(x.shares()).To(Equal(map[string]int{"a": 64}))
		x.Expect(x.movedSince()).To(BeZero())
		a.end()
	})
}

func TestStalledWatchIsBroken(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(30 * time.Second)
		stall := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Stall = stall })
		b := x.shards("b", nil)
		pass(time.Minute)
		x.Expect(x.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		close(stall)
		a.end()
		b.end()
	})
}

func TestAWatchThatDoesNotOpenIsGivenUp(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(time.Minute)
		x.Expect(x.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		never := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Stall, l.Deaf = never, never })
		pass(time.Minute)
		b.end()
		pass(30 * time.Second)
		x.Expect(x.shares()).To(Equal(map[string]int{"a": 64}), "by lists alone")
		close(never)
		a.end()
	})
}

func TestReplicaThatSeesNoMemberTakesWhatIsFree(t *testing.T) {
	inBubble(t, func(x *fixture) {
		l := x.api.Link(1)
		stall := make(chan struct{})
		l.Slow, l.Stall = 400*time.Millisecond, stall
		a := newShards(x.t, l, "a", &shard.Options{Slots: 512})
		stop := x.run(func(ctx context.Context) error { return a.Run(ctx, x.work("a", 0)) })
		pass(14 * time.Second) // it has not heard of its own renewals for the last 7 s
		x.Expect(len(x.owned())).To(BeNumerically(">", 400))
		close(stall)
		pass(10 * time.Second)
		x.Expect(x.shares()).To(Equal(map[string]int{"a": 512}))
		stop()
	})
}

func TestLateWatchDoesNotBuryTheLiving(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(time.Minute)
		x.movedSince()
		stall := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Stall = stall })
		pass(10 * time.Minute)
		a.link.Set(func(l *leaseapi.Link) { l.Stall = nil })
		close(stall)
		pass(time.Minute)
		x.Expect(x.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		x.Expect(x.movedSince()).To(BeZero())
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
		inBubble(t, func(x *fixture) {
			r := rand.New(rand.NewSource(seed))
			alive := map[string]*shardReplica{}
			for change := range 20 {
				names := slices.Sorted(maps.Keys(alive))
				moves, what := 0, ""
				switch {
				case len(names) < 2 || len(names) < 8 && r.Intn(2) == 0:
					name := fmt.Sprint("m", change)
					alive[name] = x.shards(name, nil)
					moves, what = 64/len(alive), "joins"
				case r.Intn(2) == 0:
					name := names[r.Intn(len(names))]
					moves, what = x.shares()[name], "leaves"
					alive[name].end()
					delete(alive, name)
				default:
					name := names[r.Intn(len(names))]
					moves, what = x.shares()[name], "dies"
					alive[name].die()
					delete(alive, name)
				}
				pass(time.Minute)
				shares := slices.Sorted(maps.Values(x.shares()))
				n := len(shares)
				x.Expect(n).To(Equal(len(alive)))
				x.Expect(shares[n-1]-shares[0]).To(BeNumerically("<=", 1), "seed %d: shares are %v", seed, shares)
				x.Expect(x.movedSince()).To(BeNumerically("<=", moves), "seed %d: one of %d %s", seed, n, what)
			}
			for _, r := range alive {
				r.end()
			}
		})
	}
}

// The policy of package fence refuses the late writes of a member by its record.
func TestTheRecordOfAMemberThatEndedIsKeptForAnHour(t *testing.T) {
	for how, ends := range map[string]func(*shardReplica){"stops": (*shardReplica).end, "dies": (*shardReplica).die} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				a, b := x.shards("a", nil), x.shards("b", nil)
				pass(time.Minute)
				ends(b)
				pass(30 * time.Minute)
				c := x.shards("c", nil)
				a.end()
				pass(29 * time.Minute)
				x.released("test-member-b")
				pass(3 * time.Minute)
				_, err := x.api.Get("test-member-b")
				x.Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"), "an hour after its end, whoever runs since when")
				c.end()
			})
		})
	}
}
