package shard_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

func TestShardsDivideAndFollowTheMembers(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(10 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		x.Expect(a.Ready()).To(Succeed())
		x.Expect(states(a.Shards)).To(Equal(map[shard.State]int{shard.Here: 64}))

		b := x.shards("b", nil)
		pass(30 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		x.Expect(x.MovedSince()).To(Equal(32))

		c := x.shards("c", nil)
		pass(30 * time.Second)
		x.Expect(slices.Sorted(maps.Values(x.Shares()))).To(Equal([]int{21, 21, 22}))
		x.Expect(x.MovedSince()).To(BeNumerically("<=", 22))
		s := a.Status()
		x.Expect(s.Count(shard.Here) + s.Count(shard.Elsewhere)).To(Equal(64))
		x.Expect(s.Members).To(HaveLen(3))
		x.Expect(s.Count(shard.Here)).To(Equal(x.Shares()["a"]))
		for range 10 {
			x.Expect(slices.IsSorted(a.Status().Members)).To(BeTrue())
		}
		x.Expect(a.String()).To(MatchRegexp(`^2[12] of 64 slots are here; members: a_\S+, b_\S+, c_\S+$`))

		share := x.Shares()["b"]
		b.end()
		pass(3 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "c": 32}))
		x.Expect(x.MovedSince()).To(Equal(share))

		c.die()
		pass(8 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32}), "a dead member's slots wait for a lease duration")
		x.Expect(states(a.Shards)).To(Equal(map[shard.State]int{shard.Here: 32, shard.Elsewhere: 32}))
		pass(12 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		x.Expect(a.logs.Count("membership expired")).To(Equal(1))
		a.end()
		x.Released("test-member-c")
	})
}

func TestSlotRecordsChangeOnlyWithTheirOwner(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(time.Minute)
		before, err := x.API.Get("test-slot-7")
		x.Expect(err).NotTo(HaveOccurred())
		version := x.API.Newest()
		pass(time.Minute)
		after, err := x.API.Get("test-slot-7")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(after.ResourceVersion).To(Equal(before.ResourceVersion))
		x.Expect(x.API.Newest()-version).To(BeNumerically("~", 60, 2), "two renewals each two seconds, nothing else")
		a.end()
		b.end()
	})
}

func TestAPlannedMoveWaitsForReconcilesInFlight(t *testing.T) {
	inBubble(t, func(x *fixture) {
		l := x.API.Link(1)
		a := newShards(x.T, l, "a", nil)
		stop := x.Run(func(ctx context.Context) error {
			return a.Run(ctx, func(ctx context.Context, slot int) error {
				x.Take(slot, "a")
				defer x.Leave(slot)
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), shard.ErrMoved) {
					x.Add("moves")
					<-time.After(2 * time.Minute) // reconciles in flight
				}
				return nil
			})
		})
		pass(10 * time.Second)
		b := x.shards("b", nil)
		pass(time.Minute)
		x.Expect(x.Read()).To(HaveLen(32))
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		pass(2 * time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		stop()
		b.end()
	})
}

func TestStoppingMemberGetsNoMoreSlots(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(30 * time.Second)
		l := x.API.Link(9)
		c := newShards(x.T, l, "c", nil)
		ctx, stop := context.WithCancel(x.T.Context())
		wait := background(func() error {
			return c.Run(ctx, func(ctx context.Context, slot int) error {
				<-ctx.Done()
				if slot%2 == 0 {
					<-time.After(time.Minute) // half of the slots drain slowly
				}
				return nil
			})
		})
		pass(30 * time.Second)
		x.Expect(c.Status().Count(shard.Here)).To(BeNumerically(">=", 20))
		stop()
		pass(3 * time.Second)
		even := c.Status().Count(shard.Here)
		x.Expect(even).To(BeNumerically("<", 20))
		x.Expect(x.Owned()).To(HaveLen(64-even), "what c has given up is with the others at once")
		pass(time.Minute)
		x.Expect(wait()).To(Succeed())
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end()
		b.end()
	})
}

func TestAMemberThatDoesNotTakeItsSlotsIsSkipped(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(10 * time.Second)
		stop := x.renewOnly("b")
		pass(time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		moved := len(x.Read())
		pass(10 * time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		x.Expect(x.Read()).To(HaveLen(moved))
		stop()
		a.end()
	})
}

// slotless is a connection to the API on which slots cannot be taken while err
// is set.
type slotless struct {
	*leaseapi.Link
	err atomic.Pointer[func(record string) error]

	mu             sync.Mutex // guards the fields below
	inFlight, most int        // concurrent writes of slots
}

func (s *slotless) Leases(string) coordinationclient.LeaseInterface { return s }

func (s *slotless) Create(
	ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return s.write(l, func() (*coordinationv1.Lease, error) { return s.Link.Create(ctx, l, o) })
}

func (s *slotless) Update(
	ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	return s.write(l, func() (*coordinationv1.Lease, error) { return s.Link.Update(ctx, l, o) })
}

func (s *slotless) write(
	l *coordinationv1.Lease, f func() (*coordinationv1.Lease, error),
) (*coordinationv1.Lease, error) {
	if !strings.Contains(l.Name, "-slot-") {
		return f()
	}
	if err := s.err.Load(); err != nil {
		return nil, (*err)(l.Name)
	}
	count := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight += n
		s.most = max(s.most, s.inFlight)
	}
	count(1)
	defer count(-1)
	return f()
}

// slotless starts a replica that cannot take slots because of an error.
func (x *fixture) slotless(identity string, because func(record string) error) (s *shard.Shards, way *slotless, stop func()) {
	x.T.Helper()
	way = &slotless{Link: x.API.Link(2)}
	way.err.Store(&because)
	lease := leaseOf(way.Link, identity)
	lease.Client = way
	s, err := shard.New(lease, nil)
	x.Expect(err).NotTo(HaveOccurred())
	return s, way, x.Run(func(ctx context.Context) error { return s.Run(ctx, x.Work(identity, 0)) })
}

// A slot that another replica has taken first is not a problem.
func TestAReplicaThatCannotTakeSlotsIsNotReady(t *testing.T) {
	type because = func(record string) error
	always := func(err error) because { return func(string) error { return err } }
	foreign := always(apierrors.NewGenericServerResponse(
		http.StatusConflict, "update", leaseapi.Leases, "test-slot-1", "", 0, true))
	for name, test := range map[string]struct {
		err   because
		ready bool
	}{
		"forbidden": {always(leaseapi.ErrForbidden), false},
		"conflict": {func(record string) error {
			return apierrors.NewConflict(leaseapi.Leases, record, leaseapi.ErrForbidden)
		}, true},
		"conflict by a proxy": {foreign, false},
		"exists": {func(record string) error {
			return apierrors.NewAlreadyExists(leaseapi.Leases, record)
		}, true},
		"not found": {func(record string) error {
			return apierrors.NewNotFound(leaseapi.Leases, record)
		}, true},
		"not found, about another record": {always(apierrors.NewNotFound(leaseapi.Leases, "other")), false},
		"no namespace":                    {always(apierrors.NewNotFound(corev1.Resource("namespaces"), "default")), false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				s, way, stop := x.slotless("a", test.err)
				pass(5 * time.Second)
				for range 100 { // each time after events of the watch
					pass(100 * time.Millisecond)
					if test.ready {
						x.Expect(s.Ready()).To(Succeed())
						continue
					}
					x.Expect(s.Ready()).To(MatchError(test.err("")))
					x.Expect(s.Ready()).To(MatchError(HavePrefix(`writing a record of lease "default/test"`)))
				}
				way.err.Store(nil)
				way.Set(func(l *leaseapi.Link) { l.Slow = 100 * time.Millisecond })
				pass(5 * time.Second)
				x.Expect(s.Ready()).To(Succeed())
				x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
				x.Expect(way.most).To(Equal(16), "the server is spared")
				stop()
			})
		})
	}
}

func TestAMemberThatCanTakeSlotsAgainGetsItsShare(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(10 * time.Second)
		_, way, stop := x.slotless("b", func(string) error { return leaseapi.ErrForbidden })
		pass(time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		way.err.Store(nil)
		pass(time.Minute)
		c := x.shards("c", nil)
		pass(time.Minute)
		x.Expect(slices.Sorted(maps.Values(x.Shares()))).To(Equal([]int{21, 21, 22}))
		stop()
		a.end()
		c.end()
	})
}

func TestManyUnresponsiveMembersCostNoMoreTimeThanOne(t *testing.T) {
	inBubble(t, func(x *fixture) {
		one := &shard.Options{Slots: 1}
		a := x.shards("a", one)
		pass(5 * time.Second)
		last := x.shards("g", one) // its score is below the score of five idle ones
		var stops []func()
		for i := range 6 {
			stops = append(stops, x.renewOnly(fmt.Sprint("idle-", i)))
		}
		pass(5 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 1}))
		a.die()
		pass(21 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"g": 1}))
		for _, stop := range stops {
			stop()
		}
		last.end()
	})
}

func TestReplicaThatDividesDifferentlyDoesNotJoin(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(10 * time.Second)
		for _, other := range []shard.Options{{Slots: 32}, {By: shard.ByKey}} {
			b := newShards(x.T, x.API.Link(2), "b", &other)
			err := b.Run(x.T.Context(), x.Work("b", 0))
			x.Expect(err).To(MatchError(shard.ErrConfig))
			x.Expect(err).To(MatchError(ContainSubstring("stop all replicas and delete lease")))
		}
		b := newShards(x.T, x.API.Link(2), "b", &shard.Options{Slots: 32})
		x.Expect(b.Run(x.T.Context(), x.Work("b", 0))).To(MatchError(ContainSubstring(`slots is recorded as "64", but is "32" in this replica`)))
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		a.end()
	})
}

func TestFunctionOfASlotThatFailsEndsRun(t *testing.T) {
	for _, want := range []error{nil, errors.New("broken")} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				s := newShards(x.T, x.API.Link(1), "a", nil)
				err := s.Run(x.T.Context(), func(ctx context.Context, slot int) error {
					if slot == 3 {
						return want
					}
					<-ctx.Done()
					return nil
				})
				x.Expect(err).To(MatchError(ContainSubstring("working on slot 3")))
				if want != nil {
					x.Expect(err).To(MatchError(want))
				}
				x.Released("test-slot-5")
			})
		})
	}
}

func TestShardsNameMissingPermissions(t *testing.T) {
	inBubble(t, func(x *fixture) {
		l := x.API.Link(1)
		l.Fail = apierrors.NewForbidden(leaseapi.Leases, "test", errors.New("no RBAC policy matched"))
		s := newShards(x.T, l, "a", nil)
		stop := x.Run(func(ctx context.Context) error { return s.Run(ctx, x.Work("a", 0)) })
		pass(time.Minute)
		x.Expect(s.Ready()).To(MatchError(ContainSubstring("grant get, list, watch, create, update and delete on leases")))
		x.Expect(s.Run(x.T.Context(), nil)).To(MatchError(ContainSubstring("already running")))
		stop()
	})
}

func TestKeysOfANamespaceShareASlot(t *testing.T) {
	g := NewWithT(t)
	api := leaseapi.New(t)
	byNamespace := newShards(t, api.Link(1), "a", nil)
	byKey := newShards(t, api.Link(1), "a", &shard.Options{By: shard.ByKey})
	spread, keys := map[int]bool{}, map[int]bool{}
	for i := range 1000 {
		key := types.NamespacedName{Namespace: "team", Name: fmt.Sprint(i)}
		g.Expect(byNamespace.Slot(key)).To(Equal(byNamespace.Slot(types.NamespacedName{Namespace: "team"})))
		keys[byKey.Slot(key)] = true
		spread[byNamespace.Slot(types.NamespacedName{Namespace: fmt.Sprint("ns-", i)})] = true
	}
	g.Expect(spread).To(HaveLen(64))
	g.Expect(keys).To(HaveLen(64))
}

func TestNewRefusesBadInput(t *testing.T) {
	g := NewWithT(t)
	lease := leaseOf(leaseapi.New(t).Link(1), "Bad_Identity")
	_, err := shard.New(lease, &shard.Options{
		Slots: 2000, By: 7, Settle: -1, Member: leader.Options{RenewDeadline: time.Hour},
	})
	for _, want := range []string{
		`Lease.Identity is "Bad_Identity"`, "Options.Slots is 2000: must be from 1 to 1024",
		"Options.By is KeyPart(7)", "Options.Settle is -1ns", "Options.RenewDeadline is 1h0m0s",
	} {
		g.Expect(err).To(MatchError(ContainSubstring(want)))
	}
	for _, empty := range []leader.Lease{
		{Client: lease.Client, Namespace: "default", Name: "test"},
		{Client: lease.Client, Namespace: "default", Identity: "a"},
	} {
		_, err := shard.New(empty, nil)
		g.Expect(err).To(HaveOccurred())
		g.Expect(err).NotTo(MatchError(ContainSubstring("as part of the name")), "what is empty is said once")
	}
}

func TestTheRecordOfADeadMemberThatOthersTouchExpires(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.shards("a", nil), x.shards("b", nil)
		pass(time.Minute)
		b.die()
		rest := x.Touch("test-member-b")
		pass(25 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		rest()
		a.end()
	})
}

func TestASlotThatOthersTouchCanStillBeTaken(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(10 * time.Second)
		var rests []func()
		for slot := range 64 {
			rests = append(rests, x.Touch(fmt.Sprintf("test-slot-%d", slot)))
		}
		pass(15 * time.Second)
		b := x.shards("b", nil)
		pass(time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		for _, rest := range rests {
			rest()
		}
		a.end()
		b.end()
	})
}

func TestASlotWhoseRequestsWereCutOffIsNotGivenAway(t *testing.T) {
	for name, meanwhile := range map[string]func(x *fixture){
		"while its member stays":      func(*fixture) {},
		"when its membership is lost": func(x *fixture) { x.API.Delete("test-member-a") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				a := newShards(x.T, x.API.Link(1), "a", nil)
				stop := x.Run(func(ctx context.Context) error {
					return a.Run(ctx, func(ctx context.Context, slot int) error {
						x.Take(slot, "a")
						defer x.Leave(slot)
						<-ctx.Done()
						if errors.Is(context.Cause(ctx), shard.ErrMoved) {
							x.Add("cut off")
							asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Nanosecond)
							defer cancel()
							_, _ = through(asking, a, "http://api", deaf, http.MethodPut, "/api/v1/x")
						}
						return nil
					})
				})
				pass(10 * time.Second)
				b := x.shards("b", nil)
				pass(8 * time.Second)
				x.Expect(x.Read()).To(HaveLen(32))
				meanwhile(x)
				pass(4 * time.Second)
				x.Expect(x.Shares()).NotTo(HaveKey("b"))
				pass(35 * time.Second)
				x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
				stop()
				b.end()
			})
		})
	}
}

func TestShardsSayWhereTheirSlotsAre(t *testing.T) {
	inBubble(t, func(x *fixture) {
		s := newShards(x.T, x.API.Link(1), "a", &shard.Options{Slots: 1})
		x.Expect(s.String()).To(Equal(`0 of 1 slots are here; members: none; 1 are claimable ` +
			`(campaigning for lease "default/test-member-a": no replica leads yet)`))
		stop := x.Run(func(ctx context.Context) error { return s.Run(ctx, x.Work("a", 0)) })
		pass(10 * time.Second)
		x.Expect(s.String()).To(MatchRegexp(`^1 of 1 slots are here; members: a_\S+$`))
		x.Expect(s.Status().Slots[0].Owner).To(Equal(s.Status().Member.Identity))
		x.Expect(time.Since(s.Status().Slots[0].Since)).To(BeNumerically("~", 10*time.Second, time.Second))
		stop()
	})
}

func TestAReplicaThatWaitsForItsLastMembershipToEndIsNotReady(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(10 * time.Second)
		a.die()
		again := x.shards("a", nil)
		pass(5 * time.Second)
		x.Expect(again.Ready()).To(MatchError(`joining shards "default/test": not a member yet`))
		pass(20 * time.Second)
		x.Expect(again.Ready()).To(Succeed())
		again.end()
	})
}

// Other replicas select the records of members by their labels.
func TestAMemberIsSeenFromItsFirstRequestOn(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(100 * time.Millisecond)
		member, err := x.API.Get("test-member-a")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(member.Labels).To(Equal(map[string]string{
			"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "member",
		}))
		a.end()
	})
}

func TestShardsWithoutAFunctionDoNotJoin(t *testing.T) {
	inBubble(t, func(x *fixture) {
		s := newShards(t, x.API.Link(1), "a", nil)
		x.Expect(s.Run(t.Context(), nil)).To(MatchError(ContainSubstring("the function to run is nil")))
	})
}
