package leader_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/leader"
)

// owners is who works on which slot, as the functions of the slots see it.
type owners struct {
	mu    sync.Mutex
	slots map[int]string
	takes map[int]int
	moves int // how often a slot got another owner than the last
	last  map[int]string
	fault string
}

func newOwners() *owners {
	return &owners{slots: map[int]string{}, last: map[int]string{}, takes: map[int]int{}}
}

func (o *owners) take(slot int, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if other := o.slots[slot]; other != "" {
		o.fault = fmt.Sprintf("slot %d is with %s and %s", slot, other, name)
	}
	if last := o.last[slot]; last != "" && last != name {
		o.moves++
	}
	o.slots[slot], o.last[slot] = name, name
	o.takes[slot]++
}

func (o *owners) leave(slot int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.slots, slot)
}

// shares is how many slots each has.
func (o *owners) shares() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	shares := map[string]int{}
	for name := range maps.Values(o.slots) {
		shares[name]++
	}
	return shares
}

// owned is a copy of who has which slot.
func (o *owners) owned() map[int]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.slots)
}

func (o *owners) taken(slot int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takes[slot]
}

func (o *owners) movedSince() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	moves := o.moves
	o.moves = 0
	return moves
}

// work owns a slot until its context ends, and for the drain after.
func (o *owners) work(name string, drain time.Duration) func(context.Context, int) error {
	return func(ctx context.Context, slot int) error {
		o.take(slot, name)
		defer o.leave(slot)
		<-ctx.Done()
		wait(drain)
		return nil
	}
}

// shardReplica is one running replica.
type shardReplica struct {
	*leader.Shards
	link *link
	stop context.CancelFunc
	wait func() error
}

func newShards(t *testing.T, l *link, identity string, o *leader.ShardOptions) *leader.Shards {
	t.Helper()
	s, err := leader.NewShards(leaseOf(l, identity), o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

func startShards(t *testing.T, api *leaseAPI, o *owners, identity string) *shardReplica {
	t.Helper()
	return startShardsWith(t, api, o, identity, nil)
}

func startShardsWith(
	t *testing.T, api *leaseAPI, o *owners, identity string, options *leader.ShardOptions,
) *shardReplica {
	t.Helper()
	l := api.link(int64(len(identity)))
	r := &shardReplica{Shards: newShards(t, l, identity, options), link: l}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	r.wait = background(func() error { return r.Run(ctx, o.work(identity, time.Second)) })
	return r
}

// states counts the slots by state.
func states(s *leader.Shards) map[string]int {
	states := map[string]int{}
	s.EachSlot(func(_ int, state, _ string, _ time.Time) { states[state]++ })
	return states
}

func (r *shardReplica) end(t *testing.T) {
	t.Helper()
	r.stop()
	NewWithT(t).Expect(r.wait()).To(Succeed())
}

// die is kill -9: nothing of it reaches the API any more.
func (r *shardReplica) die() {
	r.link.set(func(l *link) { l.fail = errors.New("dead") })
	r.stop()
	_ = r.wait()
}

func TestShardsDivideAndFollowTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a := startShards(t, api, o, "a")
		pass(10 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 64}))
		g.Expect(a.Ready()).To(Succeed())
		g.Expect(states(a.Shards)).To(Equal(map[string]int{"here": 64}))

		b := startShards(t, api, o, "b")
		pass(30 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		g.Expect(o.movedSince()).To(Equal(32))

		c := startShards(t, api, o, "c")
		pass(30 * time.Second)
		g.Expect(slices.Sorted(maps.Values(o.shares()))).To(Equal([]int{21, 21, 22}))
		g.Expect(o.movedSince()).To(BeNumerically("<=", 22))
		s := a.Status()
		g.Expect(s.Owned).To(Equal(64))
		g.Expect(s.Members).To(HaveLen(3))
		g.Expect(s.Mine).To(Equal(o.shares()["a"]))
		g.Expect(a.String()).To(MatchRegexp(`^2[12] of 64 slots are here; members: a_\S+, b_\S+, c_\S+$`))

		share := o.shares()["b"]
		b.end(t)
		pass(3 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 32, "c": 32}))
		g.Expect(o.movedSince()).To(Equal(share))

		c.die()
		pass(8 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 32}), "a dead member's slots wait for a lease duration")
		g.Expect(states(a.Shards)).To(Equal(map[string]int{"here": 32, "elsewhere": 32}))
		pass(12 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 64}))
		a.end(t)
		g.Expect(o.fault).To(BeEmpty())
		l, err := api.get("test-member-c")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(l.Spec.HolderIdentity).To(BeNil())
	})
}

func TestSlotRecordsChangeOnlyWithTheirOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a, b := startShards(t, api, o, "a"), startShards(t, api, o, "b")
		pass(time.Minute)
		before, err := api.get("test-slot-7")
		g.Expect(err).NotTo(HaveOccurred())
		version := api.newest()
		pass(time.Minute)
		after, err := api.get("test-slot-7")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(after.ResourceVersion).To(Equal(before.ResourceVersion))
		g.Expect(api.newest()-version).To(BeNumerically("~", 60, 2), "two renewals each two seconds, nothing else")
		a.end(t)
		b.end(t)
	})
}

func TestPlannedMoveWaitsForTurnsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		l := api.link(1)
		a := newShards(t, l, "a", nil)
		ctx, stop := context.WithCancel(t.Context())
		var d diary
		wait := background(func() error {
			return a.Run(ctx, func(ctx context.Context, slot int) error {
				o.take(slot, "a")
				defer o.leave(slot)
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), leader.ErrMoved) {
					d.add("moves")
					<-time.After(2 * time.Minute) // turns in flight
				}
				return nil
			})
		})
		pass(10 * time.Second)
		b := startShards(t, api, o, "b")
		pass(time.Minute)
		g.Expect(d.read()).To(HaveLen(32))
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 64}))
		pass(2 * time.Minute)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		stop()
		g.Expect(wait()).To(Succeed())
		b.end(t)
		g.Expect(o.fault).To(BeEmpty())
	})
}

func TestStoppingMemberGetsNoMoreSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a, b := startShards(t, api, o, "a"), startShards(t, api, o, "b")
		pass(30 * time.Second)
		l := api.link(9)
		c := newShards(t, l, "c", nil)
		ctx, stop := context.WithCancel(t.Context())
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
		g.Expect(c.Status().Mine).To(BeNumerically(">=", 20))
		stop()
		pass(3 * time.Second)
		even := c.Status().Mine
		g.Expect(even).To(BeNumerically("<", 20))
		g.Expect(o.owned()).To(HaveLen(64-even), "what c has given up is with the others at once")
		pass(time.Minute)
		g.Expect(wait()).To(Succeed())
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end(t)
		b.end(t)
	})
}

func TestMemberThatTakesNothingIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a := startShards(t, api, o, "a")
		pass(10 * time.Second)
		var d diary
		stop := renewOnly(t, api, &d, "b")
		pass(time.Minute)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 64}))
		moved := len(d.read())
		pass(10 * time.Minute)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 64}))
		g.Expect(d.read()).To(HaveLen(moved))
		stop()
		a.end(t)
	})
}

func TestManyMembersThatTakeNothingCostNoMoreTimeThanOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		one := &leader.ShardOptions{Slots: 1}
		a := startShardsWith(t, api, o, "a", one)
		pass(5 * time.Second)
		last := startShardsWith(t, api, o, "g", one) // its score is below that of five idle ones
		var stops []func()
		for i := range 6 {
			stops = append(stops, renewOnly(t, api, &diary{}, fmt.Sprint("idle-", i)))
		}
		pass(5 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 1}))
		a.die()
		pass(21 * time.Second)
		g.Expect(o.shares()).To(Equal(map[string]int{"g": 1}))
		for _, stop := range stops {
			stop()
		}
		last.end(t)
	})
}

// renewOnly is a member that renews and never claims: an elector in its place.
func renewOnly(t *testing.T, api *leaseAPI, d *diary, name string) (stop func()) {
	t.Helper()
	g := NewWithT(t)
	lease := leaseOf(api.link(5), name)
	lease.Name = "test-member-" + name
	l := leaseObject(lease.Name)
	l.Labels = map[string]string{"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "member"}
	_, err := api.create(l)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	wait := background(func() error { return leader.Run(ctx, lease, nil, untilDone(d, name)) })
	return func() {
		t.Helper()
		cancel()
		g.Expect(wait()).To(Succeed())
	}
}

func TestReplicaThatDividesDifferentlyDoesNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, o := newLeaseAPI(t), newOwners()
		a := startShards(t, api, o, "a")
		pass(10 * time.Second)
		for _, other := range []leader.ShardOptions{{Slots: 32}, {By: leader.ByKey}} {
			b := newShards(t, api.link(2), "b", &other)
			err := b.Run(t.Context(), o.work("b", 0))
			g.Expect(err).To(MatchError(leader.ErrDivision))
			g.Expect(err).To(MatchError(ContainSubstring("stop all replicas and delete lease")))
		}
		b := newShards(t, api.link(2), "b", &leader.ShardOptions{Slots: 32})
		g.Expect(b.Run(t.Context(), o.work("b", 0))).To(MatchError(ContainSubstring(`slots is "64" there and "32" here`)))
		g.Expect(o.shares()).To(Equal(map[string]int{"a": 64}))
		a.end(t)
	})
}

func TestFunctionOfASlotThatFailsEndsRun(t *testing.T) {
	for _, want := range []error{nil, errors.New("broken")} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				api := newLeaseAPI(t)
				s := newShards(t, api.link(1), "a", nil)
				err := s.Run(t.Context(), func(ctx context.Context, slot int) error {
					if slot == 3 {
						return want
					}
					<-ctx.Done()
					return nil
				})
				g.Expect(err).To(MatchError(ContainSubstring("working on slot 3")))
				if want != nil {
					g.Expect(err).To(MatchError(want))
				}
				l, err := api.get("test-slot-5")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(l.Spec.HolderIdentity).To(BeNil())
			})
		})
	}
}

func TestShardsNameMissingPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		l := newLeaseAPI(t).link(1)
		l.fail = apierrors.NewForbidden(leases, "test", errors.New("no RBAC policy matched"))
		s := newShards(t, l, "a", nil)
		ctx, stop := context.WithCancel(t.Context())
		wait := background(func() error { return s.Run(ctx, newOwners().work("a", 0)) })
		pass(time.Minute)
		g.Expect(s.Ready()).To(MatchError(ContainSubstring("grant get, list, watch, create, update and delete on leases")))
		g.Expect(s.Run(ctx, nil)).To(MatchError(ContainSubstring("they run already")))
		stop()
		g.Expect(wait()).To(Succeed())
	})
}

func TestKeysOfANamespaceShareASlot(t *testing.T) {
	g := NewWithT(t)
	api := newLeaseAPI(t)
	byNamespace := newShards(t, api.link(1), "a", nil)
	byKey := newShards(t, api.link(1), "a", &leader.ShardOptions{By: leader.ByKey})
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

func TestNewShardsRefusesBadInput(t *testing.T) {
	g := NewWithT(t)
	lease := leaseOf(newLeaseAPI(t).link(1), "Bad_Identity")
	_, err := leader.NewShards(lease, &leader.ShardOptions{
		Slots: 2000, By: 7, Settle: -1, Member: leader.Options{RenewDeadline: time.Hour},
	})
	for _, want := range []string{
		`Lease.Identity is "Bad_Identity"`, "ShardOptions.Slots is 2000: must be from 1 to 1024",
		"ShardOptions.By is By(7)", "ShardOptions.Settle is -1ns", "Options.RenewDeadline is 1h0m0s",
	} {
		g.Expect(err).To(MatchError(ContainSubstring(want)))
	}
}
