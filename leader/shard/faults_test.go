package shard_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
)

func TestASlotWhoseRecordIsDeletedIsGivenUp(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(time.Minute)
		x.MovedSince()
		takes := x.Taken(9)
		x.API.Delete("test-slot-9")
		pass(10 * time.Second)
		x.Expect(x.Taken(9)).To(Equal(takes+1), "given up and written down again")
		x.Expect(x.MovedSince()).To(BeZero())
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end()
		b.end()
	})
}

// Other programs may have records that look like records of slots.
func TestRecordsOfOtherProgramsAreLeftAlone(t *testing.T) {
	inBubble(t, func(x *fixture) {
		for name, slot := range map[string]string{
			"other": "1", "test-slot-x": "x", "test-slot--1": "-1", "test-slot-64": "64", "test-slot-2": "3",
			"test-slot-03": "03",
		} {
			l := leaseapi.Object(name)
			l.Labels = map[string]string{
				"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "slot", "leader.homeostat.dev/slot": slot,
			}
			l.Spec.HolderIdentity = new("other_1.1")
			_, err := x.API.Create(l)
			x.Expect(err).NotTo(HaveOccurred())
		}
		a := x.shards("a", nil)
		pass(leaseDuration - time.Second)
		x.Expect(x.Owned()).To(HaveLen(63), "the record with the name of slot 2 has the label of another")
		a.end()
	})
}

func TestMemberRecordDeletedByHandEndsTheMembership(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(30 * time.Second)
		open := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Cut = open })
		x.API.Delete("test-member-a")
		b := x.shards("b", nil) // has never seen the member a
		pass(14 * time.Second)
		x.Expect(x.Shares()).NotTo(HaveKey("b"))
		pass(10 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"b": 64}))
		a.link.Set(func(l *leaseapi.Link) { l.Cut = nil })
		close(open)
		pass(30 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
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
				for slot, owner := range x.Owned() {
					if owner == "a" {
						name = strings.Replace(name, "%d", fmt.Sprint(slot), 1)
					}
				}
				x.API.Delete(name)
				pass(30 * time.Second)
				a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = nil, nil })
				close(open)
				pass(30 * time.Second)
				x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
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

func TestAShortVisitMovesNoSlots(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(30 * time.Second)
		b := x.shards("b", nil)
		pass(3 * time.Second)
		b.end()
		pass(time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		x.Expect(x.MovedSince()).To(BeZero())
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
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		close(stall)
		a.end()
		b.end()
	})
}

func TestAWatchThatDoesNotOpenIsGivenUp(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		never := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Stall, l.Deaf = never, never })
		pass(time.Minute)
		b.end()
		pass(30 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}), "by lists alone")
		close(never)
		a.end()
	})
}

// blind is a connection to the API on which records can be neither listed nor
// watched while errors are set.
type blind struct {
	*leaseapi.Link

	mu          sync.Mutex // guards the fields below
	list, watch error
	event       *metav1.Status // that a watch begins with
	lists       int
}

func (b *blind) Leases(string) coordinationclient.LeaseInterface { return b }

func (b *blind) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lists++; b.list != nil {
		return nil, b.list
	}
	return b.Link.List(ctx, o)
}

func (b *blind) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.event != nil {
		w := watch.NewFakeWithChanSize(1, false)
		w.Error(b.event)
		return w, nil
	}
	if b.watch != nil {
		return nil, b.watch
	}
	return b.Link.Watch(ctx, o)
}

func TestAReplicaThatCannotSeeTheRecordsIsNotReady(t *testing.T) {
	forbidden := apierrors.NewForbidden(leaseapi.Leases, "", leaseapi.ErrForbidden)
	for doing, fail := range map[string]func(b *blind){
		"listing":            func(b *blind) { b.list = forbidden },
		"watching":           func(b *blind) { b.watch = forbidden },
		"watching the event": func(b *blind) { b.event = &forbidden.ErrStatus },
	} {
		t.Run(doing, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				way := &blind{Link: x.API.Link(1)}
				fail(way)
				lease := leaseOf(way.Link, "a")
				lease.Client = way
				a, err := shard.New(lease, nil)
				x.Expect(err).NotTo(HaveOccurred())
				stop := x.Run(func(ctx context.Context) error { return a.Run(ctx, x.Work("a", 0)) })
				pass(time.Minute + time.Second)
				way.mu.Lock()
				x.Expect(way.lists).To(BeNumerically("~", 31, 3), "one each RetryPeriod, and those that a lost claim asks for")
				way.list, way.watch, way.event = nil, nil, nil
				way.mu.Unlock()
				verb, _, _ := strings.Cut(doing, " ")
				x.Expect(a.Ready()).To(MatchError(ContainSubstring(verb + " the records of lease")))
				x.Expect(apierrors.IsForbidden(a.Ready())).To(BeTrue())
				pass(5 * time.Second)
				x.Expect(a.Ready()).To(Succeed())
				x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
				stop()
			})
		})
	}
}

func TestAReplicaThatSeesNoMemberTakesFreeSlots(t *testing.T) {
	inBubble(t, func(x *fixture) {
		l := x.API.Link(1)
		stall := make(chan struct{})
		l.Slow, l.Stall = 400*time.Millisecond, stall
		a := newShards(x.T, l, "a", &shard.Options{Slots: 512})
		stop := x.Run(func(ctx context.Context) error { return a.Run(ctx, x.Work("a", 0)) })
		pass(14 * time.Second) // it has not heard of its own renewals for the last 7 s
		x.Expect(len(x.Owned())).To(BeNumerically(">", 400))
		close(stall)
		pass(10 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 512}))
		stop()
	})
}

func TestALateWatchDoesNotEndALiveMembership(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(time.Minute)
		x.MovedSince()
		stall := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Stall = stall })
		pass(10 * time.Minute)
		a.link.Set(func(l *leaseapi.Link) { l.Stall = nil })
		close(stall)
		pass(time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		x.Expect(x.MovedSince()).To(BeZero())
		a.end()
		b.end()
	})
}

// TestEachChangeMovesAtMostItsFairShare adds and removes members one at a time,
// at random, and counts the slots whose owner changes.
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
					moves, what = x.Shares()[name], "leaves"
					alive[name].end()
					delete(alive, name)
				default:
					name := names[r.Intn(len(names))]
					moves, what = x.Shares()[name], "dies"
					alive[name].die()
					delete(alive, name)
				}
				pass(time.Minute)
				shares := slices.Sorted(maps.Values(x.Shares()))
				n := len(shares)
				x.Expect(n).To(Equal(len(alive)))
				x.Expect(shares[n-1]-shares[0]).To(BeNumerically("<=", 1), "seed %d: shares are %v", seed, shares)
				x.Expect(x.MovedSince()).To(BeNumerically("<=", moves), "seed %d: one of %d %s", seed, n, what)
			}
			for _, r := range alive {
				r.end()
			}
		})
	}
}

// The policy of package fence needs the record to refuse late writes of the
// member.
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
				x.Released("test-member-b")
				pass(3 * time.Minute)
				_, err := x.API.Get("test-member-b")
				x.Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"), "an hour after its end, whoever runs since when")
				c.end()
			})
		})
	}
}
