package leader_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
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

func newShards(t *testing.T, l *link, identity string, o *leader.ShardOptions) *leader.Shards {
	t.Helper()
	s, err := leader.NewShards(leaseOf(l, identity), o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

// states counts the slots by state.
func states(s *leader.Shards) map[string]int {
	states := map[string]int{}
	s.EachSlot(func(_ int, state, _ string, _ time.Time) { states[state]++ })
	return states
}

func TestShardsDivideAndFollowTheMembers(t *testing.T) {
	inTrial(t, func(w *trial) {
		a := w.shards("a", nil)
		pass(10 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 64}))
		w.Expect(a.Ready()).To(Succeed())
		w.Expect(states(a.Shards)).To(Equal(map[string]int{"here": 64}))

		b := w.shards("b", nil)
		pass(30 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		w.Expect(w.movedSince()).To(Equal(32))

		c := w.shards("c", nil)
		pass(30 * time.Second)
		w.Expect(slices.Sorted(maps.Values(w.shares()))).To(Equal([]int{21, 21, 22}))
		w.Expect(w.movedSince()).To(BeNumerically("<=", 22))
		s := a.Status()
		w.Expect(s.Owned).To(Equal(64))
		w.Expect(s.Members).To(HaveLen(3))
		w.Expect(s.Mine).To(Equal(w.shares()["a"]))
		w.Expect(a.String()).To(MatchRegexp(`^2[12] of 64 slots are here; members: a_\S+, b_\S+, c_\S+$`))

		share := w.shares()["b"]
		b.end()
		pass(3 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "c": 32}))
		w.Expect(w.movedSince()).To(Equal(share))

		c.die()
		pass(8 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32}), "a dead member's slots wait for a lease duration")
		w.Expect(states(a.Shards)).To(Equal(map[string]int{"here": 32, "elsewhere": 32}))
		pass(12 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 64}))
		a.end()
		w.released("test-member-c")
	})
}

func TestSlotRecordsChangeOnlyWithTheirOwner(t *testing.T) {
	inTrial(t, func(w *trial) {
		a, b := w.shards("a", nil), w.shards("b", nil)
		pass(time.Minute)
		before, err := w.api.get("test-slot-7")
		w.Expect(err).NotTo(HaveOccurred())
		version := w.api.newest()
		pass(time.Minute)
		after, err := w.api.get("test-slot-7")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(after.ResourceVersion).To(Equal(before.ResourceVersion))
		w.Expect(w.api.newest()-version).To(BeNumerically("~", 60, 2), "two renewals each two seconds, nothing else")
		a.end()
		b.end()
	})
}

func TestPlannedMoveWaitsForTurnsInFlight(t *testing.T) {
	inTrial(t, func(w *trial) {
		l := w.api.link(1)
		a := newShards(w.t, l, "a", nil)
		stop := w.run(func(ctx context.Context) error {
			return a.Run(ctx, func(ctx context.Context, slot int) error {
				w.take(slot, "a")
				defer w.leave(slot)
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), leader.ErrMoved) {
					w.add("moves")
					<-time.After(2 * time.Minute) // turns in flight
				}
				return nil
			})
		})
		pass(10 * time.Second)
		b := w.shards("b", nil)
		pass(time.Minute)
		w.Expect(w.read()).To(HaveLen(32))
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 64}))
		pass(2 * time.Minute)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		stop()
		b.end()
	})
}

func TestStoppingMemberGetsNoMoreSlots(t *testing.T) {
	inTrial(t, func(w *trial) {
		a, b := w.shards("a", nil), w.shards("b", nil)
		pass(30 * time.Second)
		l := w.api.link(9)
		c := newShards(w.t, l, "c", nil)
		ctx, stop := context.WithCancel(w.t.Context())
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
		w.Expect(c.Status().Mine).To(BeNumerically(">=", 20))
		stop()
		pass(3 * time.Second)
		even := c.Status().Mine
		w.Expect(even).To(BeNumerically("<", 20))
		w.Expect(w.owned()).To(HaveLen(64-even), "what c has given up is with the others at once")
		pass(time.Minute)
		w.Expect(wait()).To(Succeed())
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		a.end()
		b.end()
	})
}

func TestMemberThatTakesNothingIsPassedOver(t *testing.T) {
	inTrial(t, func(w *trial) {
		a := w.shards("a", nil)
		pass(10 * time.Second)
		stop := w.renewOnly("b")
		pass(time.Minute)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 64}))
		moved := len(w.read())
		pass(10 * time.Minute)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 64}))
		w.Expect(w.read()).To(HaveLen(moved))
		stop()
		a.end()
	})
}

func TestManyMembersThatTakeNothingCostNoMoreTimeThanOne(t *testing.T) {
	inTrial(t, func(w *trial) {
		one := &leader.ShardOptions{Slots: 1}
		a := w.shards("a", one)
		pass(5 * time.Second)
		last := w.shards("g", one) // its score is below that of five idle ones
		var stops []func()
		for i := range 6 {
			stops = append(stops, w.renewOnly(fmt.Sprint("idle-", i)))
		}
		pass(5 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 1}))
		a.die()
		pass(21 * time.Second)
		w.Expect(w.shares()).To(Equal(map[string]int{"g": 1}))
		for _, stop := range stops {
			stop()
		}
		last.end()
	})
}

// renewOnly is a member that renews and never claims: an elector in its place.
func (w *trial) renewOnly(name string) (stop func()) {
	w.t.Helper()
	lease := leaseOf(w.api.link(5), name)
	lease.Name = "test-member-" + name
	l := leaseObject(lease.Name)
	l.Labels = map[string]string{"leader.homeostat.dev/shards": "test", "leader.homeostat.dev/record": "member"}
	_, err := w.api.create(l)
	w.Expect(err).NotTo(HaveOccurred())
	return w.campaign(newElector(w.t, lease, nil), name)
}

func TestReplicaThatDividesDifferentlyDoesNotJoin(t *testing.T) {
	inTrial(t, func(w *trial) {
		a := w.shards("a", nil)
		pass(10 * time.Second)
		for _, other := range []leader.ShardOptions{{Slots: 32}, {By: leader.ByKey}} {
			b := newShards(w.t, w.api.link(2), "b", &other)
			err := b.Run(w.t.Context(), w.work("b", 0))
			w.Expect(err).To(MatchError(leader.ErrDivision))
			w.Expect(err).To(MatchError(ContainSubstring("stop all replicas and delete lease")))
		}
		b := newShards(w.t, w.api.link(2), "b", &leader.ShardOptions{Slots: 32})
		w.Expect(b.Run(w.t.Context(), w.work("b", 0))).To(MatchError(ContainSubstring(`slots is "64" there and "32" here`)))
		w.Expect(w.shares()).To(Equal(map[string]int{"a": 64}))
		a.end()
	})
}

func TestFunctionOfASlotThatFailsEndsRun(t *testing.T) {
	for _, want := range []error{nil, errors.New("broken")} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			inTrial(t, func(w *trial) {
				s := newShards(w.t, w.api.link(1), "a", nil)
				err := s.Run(w.t.Context(), func(ctx context.Context, slot int) error {
					if slot == 3 {
						return want
					}
					<-ctx.Done()
					return nil
				})
				w.Expect(err).To(MatchError(ContainSubstring("working on slot 3")))
				if want != nil {
					w.Expect(err).To(MatchError(want))
				}
				w.released("test-slot-5")
			})
		})
	}
}

func TestShardsNameMissingPermissions(t *testing.T) {
	inTrial(t, func(w *trial) {
		l := w.api.link(1)
		l.fail = apierrors.NewForbidden(leases, "test", errors.New("no RBAC policy matched"))
		s := newShards(w.t, l, "a", nil)
		stop := w.run(func(ctx context.Context) error { return s.Run(ctx, w.work("a", 0)) })
		pass(time.Minute)
		w.Expect(s.Ready()).To(MatchError(ContainSubstring("grant get, list, watch, create, update and delete on leases")))
		w.Expect(s.Run(w.t.Context(), nil)).To(MatchError(ContainSubstring("they run already")))
		stop()
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
