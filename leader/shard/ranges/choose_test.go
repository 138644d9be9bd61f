package ranges_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/leader/shard/ranges"
)

func TestRangesAreChosenAnewWhenAllReplicasHaveStopped(t *testing.T) {
	inBubble(t, rangesAreChosenAnew)
}

func rangesAreChosenAnew(x *fixture) {
	a, b := x.ranged("a", nil), x.ranged("bb", nil)
	pass(10 * time.Second)
	x.Expect(x.ranges()).To(Equal(equalRanges))
	x.Expect(x.Owned()).To(HaveLen(8))
	a.end()
	pass(10 * time.Second)
	c := x.ranged("ccc", heavyEighths())
	pass(10 * time.Second)
	x.Expect(x.ranges()).To(Equal(equalRanges), "another replica works")
	b.end()
	c.end()

	d, e := x.ranged("d", heavyEighths()), x.ranged("ee", heavyEighths())
	pass(10 * time.Second)
	x.Expect(x.ranges()).NotTo(Equal(equalRanges))
	x.Expect(x.Owned()).To(HaveLen(8))
	x.Expect(d.slots()).To(Equal(e.slots()))
	x.Expect(d.slots()).To(Equal([]int{0, 1, 2, 2, 3, 3, 3, 3}))
	d.end()
	e.end()
}

func TestReplicasThatStartAtOnceHaveTheSameRanges(t *testing.T) {
	inBubble(t, func(x *fixture) {
		before := ""
		for start := range 20 {
			var all []*ranged
			for n := range 5 {
				link := x.API.Link(int64(start*5 + n))
				link.Slow = 300 * time.Millisecond
				all = append(all, x.rangedBy(fmt.Sprint("r", n), map[string]int{eighths()[n]: 100 + start, "other": 1}, link))
			}
			pass(30 * time.Second)
			x.Expect(x.Owned()).To(HaveLen(8))
			x.Expect(x.ranges()).NotTo(Equal(before))
			before = x.ranges()
			for _, r := range all {
				x.Expect(r.slots()).To(Equal(all[0].slots()))
			}
			for _, r := range all {
				r.end()
			}
		}
	})
}

// An unknown state of a replica is not taken for its end.
func TestRangesStayWhileAReplicaMayHaveASlot(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		edit func(l *coordinationv1.Lease)
	}{
		"a member that may be alive":     {"member-a", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("a_1.1") }},
		"an owner that is not known":     {"slot-2", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("z_1.1") }},
		"a slot with a canceled request": {"slot-2", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(9)) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				a := x.ranged("a", nil)
				pass(10 * time.Second)
				a.end()
				l, err := x.API.Get("test-" + c.kind)
				x.Expect(err).NotTo(HaveOccurred())
				c.edit(l)
				_, err = x.API.Update(l)
				x.Expect(err).NotTo(HaveOccurred())
				b := x.ranged("bb", heavyEighths())
				pass(2 * time.Minute)
				x.Expect(x.ranges()).To(Equal(equalRanges))
				x.Expect(x.Owned()).To(HaveLen(8), "it works with the recorded ones")
				b.end()
				c := x.ranged("bb", heavyEighths())
				pass(10 * time.Second)
				x.Expect(x.ranges()).NotTo(Equal(equalRanges))
				c.end()
			})
		})
	}
}

// updating is a client that calls beforeUpdate with each update.
type updating struct {
	coordinationclient.LeaseInterface
	beforeUpdate func(l *coordinationv1.Lease) error
}

func (w *updating) Leases(string) coordinationclient.LeaseInterface { return w }

func (w *updating) Update(
	ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if err := w.beforeUpdate(l); err != nil {
		return nil, err
	}
	return w.LeaseInterface.Update(ctx, l, o)
}

// One replica has listed no member and is about to write ranges. In the
// meantime another replica adopts the recorded ranges. It does so without
// choosing ranges, since it is not new but has lost its membership.
func TestRangesThatAReplicaHasAdoptedAreNotReplaced(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, other := x.ranged("a", nil), x.ranged("bb", nil)
		pass(10 * time.Second)
		a.link.Set(func(l *leaseapi.Link) { l.Fail = leaseapi.ErrDead })
		pass(time.Minute)
		other.end()
		gate, waiting, once := make(chan struct{}), make(chan struct{}), sync.Once{}
		b := x.rangedBy("b", heavyEighths(), &updating{x.API.Link(1), func(l *coordinationv1.Lease) error {
			if l.Name == "test" {
				once.Do(func() {
					close(waiting)
					<-gate
				})
			}
			return nil
		}})
		<-waiting
		a.link.Set(func(l *leaseapi.Link) { l.Fail = nil })
		pass(4 * time.Second)
		x.Expect(x.Owned()).NotTo(BeEmpty())
		close(gate)
		pass(30 * time.Second)
		x.Expect(x.ranges()).To(Equal(equalRanges))
		x.Expect(b.slots()).To(Equal([]int{0, 0, 1, 1, 2, 2, 3, 3}))
		b.end()
		a.end()
	})
}

// The replica's membership has ended while its requests failed, and then all
// replicas have stopped.
func TestAReplicaAdoptsTheRangesOfEachTerm(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.ranged("a", nil), x.ranged("bb", nil)
		pass(10 * time.Second)
		want := map[string]int{}
		for n, name := range eighths() {
			a.left = append(a.left, types.NamespacedName{Namespace: name, Name: "here"})
			if x.Owned()[n] == "a" {
				want[name+"/here"] = 1
			}
		}
		a.link.Set(func(l *leaseapi.Link) { l.Fail = leaseapi.ErrDead })
		pass(time.Minute)
		b.end()
		c := x.ranged("ccc", heavyEighths())
		pass(10 * time.Second)
		x.Expect(x.ranges()).NotTo(Equal(equalRanges))
		a.link.Set(func(l *leaseapi.Link) { l.Fail = nil })
		pass(time.Minute)
		x.Expect(a.slots()).To(Equal(c.slots()))
		x.Expect(x.Shares()).To(HaveLen(2))
		c.end()
		pass(10 * time.Second)
		x.Expect(a.found).To(Equal(want), "it could not leave these keys")
		a.end()
	})
}

func TestRangesThatWereDeletedAreChosenWhenNoReplicaWorksWithThem(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, dead := x.ranged("a", nil), x.ranged("bb", nil)
		pass(10 * time.Second)
		dead.die()
		x.API.Delete("test")
		x.Expect(a.wait()).To(And(MatchError(shard.ErrConfig), MatchError(ContainSubstring("was deleted while replicas ran"))))
		b := x.ranged("b", heavyEighths())
		pass(5 * time.Second)
		x.Expect(b.Ready()).To(MatchError(ContainSubstring("another replica may still be working")))
		_, err := x.API.Get("test")
		x.Expect(err).To(HaveOccurred())
		pass(15 * time.Second)
		x.Expect(x.Owned()).To(HaveLen(8), "the dead one has had a lease duration")
		x.Expect(b.Ready()).To(Succeed())
		b.end()
	})
}

// Another client edits the ranges. All replicas end, and start again with the
// edited ranges. None of them takes a namespace that another replica still has.
func TestRangesThatAreEditedEndTheReplicas(t *testing.T) {
	const edited = "0:1 2000000000000000:1 4000000000000000:1 6000000000000000:1"
	inBubble(t, func(x *fixture) {
		a, b := x.ranged("a", nil), x.ranged("bb", nil)
		pass(10 * time.Second)
		b.link.Set(func(l *leaseapi.Link) { l.Stall = make(chan struct{}) }) // b does not see the edit
		x.divide(edited)
		x.Expect(a.wait()).To(And(MatchError(shard.ErrConfig), MatchError(ContainSubstring("other ranges were recorded"))))
		had := x.Shares()["bb"]
		a = x.ranged("a", nil)
		pass(10 * time.Second)
		x.Expect(a.slots()).To(Equal([]int{0, 1, 2, 3, 3, 3, 3, 3}))
		x.Expect(x.Shares()).To(Equal(map[string]int{"bb": had}))
		x.Expect(a.logs.Count("another replica uses different shard ranges")).To(Equal(1))
		b.die()
		pass(24 * time.Second)
		x.Expect(x.Shares()).To(BeEmpty(), "another such replica may be about to take slots")
		pass(40 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 8}))
		x.divide("nonsense")
		x.Expect(a.wait()).To(MatchError(shard.ErrConfig))
		c := x.ranged("a", nil)
		pass(10 * time.Second)
		x.Expect(x.ranges()).To(Equal(equalRanges), "no replica has a slot")
		x.divide("nonsense")
		x.Expect(c.wait()).To(MatchError(shard.ErrConfig))
	})
}

func TestRangesOfAnotherNumberOfSlotsAreRefused(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a", nil)
		pass(10 * time.Second)
		s, err := ranges.New(leaseOf(x.API.Link(1), "b"), &shard.Options{Slots: 5})
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(s.Run(x.T.Context(), x.Work("b", 0))).To(MatchError(shard.ErrConfig))
		a.end()
		x.Expect(s.Run(x.T.Context(), x.Work("b", 0))).To(MatchError(shard.ErrConfig), "whether a replica runs or not")
	})
}

func TestKeysAreFoundByTheOwnersOfTheirNamespaces(t *testing.T) {
	inBubble(t, keysAreFoundByTheOwnersOfTheirNamespaces)
}

// Replicas with equal ranges leave keys. With new ranges, the keys are found by
// the first owner of their slot and, if that dies before it has released the
// slot, by the next owner.
func keysAreFoundByTheOwnersOfTheirNamespaces(x *fixture) {
	var keys []types.NamespacedName
	want := map[string]int{}
	for _, name := range eighths() {
		keys = append(keys, types.NamespacedName{Namespace: name, Name: "deleted"})
		want[name+"/deleted"] = 1
	}
	a := x.ranged("a", nil)
	pass(10 * time.Second)
	a.left = keys
	a.end()
	before := x.rangedBy("before", heavyEighths(), &updating{x.API.Link(1), func(l *coordinationv1.Lease) error {
		if l.Name == "test-slot-3" { // the record of slot 2 already has some keys
			return leaseapi.ErrForbidden
		}
		return nil
	}})
	pass(10 * time.Second)
	for key := range before.found {
		delete(want, key)
	}
	x.Expect(want).To(HaveLen(4))
	before.end()
	b := x.ranged("bb", heavyEighths())
	pass(10 * time.Second)
	x.Expect(b.found).To(Equal(want))
	b.die()
	pass(time.Minute)
	c := x.ranged("ccc", nil)
	pass(time.Minute)
	x.Expect(c.found).To(Equal(want), "the record still has them")
	c.left = keys[6:]
	c.end()
	d := x.ranged("d", nil)
	pass(10 * time.Second)
	x.Expect(x.ranges()).To(Equal(equalRanges))
	x.Expect(d.found).To(Equal(map[string]int{keys[6].String(): 1, keys[7].String(): 1}), "the others were done")
	d.end()
}

// Each replica publishes its number of objects with its membership.
func TestTheImbalanceIsReported(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a, b := x.ranged("a", nil), x.ranged("bb", nil)
		var ofA, ofB atomic.Int64
		ofA.Store(90)
		ofB.Store(30)
		stopA := x.Run(func(ctx context.Context) error {
			ranger(a).Measure(ctx, func() int { return int(ofA.Load()) })
			return nil
		})
		pass(10 * time.Second)
		x.Expect(a.Status().Imbalance).To(BeZero(), "it is not known how many bb has")
		stopB := x.Run(func(ctx context.Context) error {
			ranger(b).Measure(ctx, func() int { return int(ofB.Load()) })
			return nil
		})
		pass(10 * time.Second)
		for _, r := range []*ranged{a, b} {
			x.Expect(r.Status().Imbalance).To(BeNumerically("~", 1.5, 0.001))
		}
		ofA.Store(13)
		ofB.Store(1)
		pass(2 * time.Minute)
		x.Expect(b.Status().Imbalance).To(BeZero(), "few objects are no imbalance")
		for _, edited := range []string{"x", "-1", "1e3", strings.Repeat("9", 30)} {
			l, err := x.API.Get("test-member-a")
			x.Expect(err).NotTo(HaveOccurred())
			l.Annotations["leader.homeostat.dev/load"] = edited
			_, err = x.API.Update(l)
			x.Expect(err).NotTo(HaveOccurred())
			<-time.After(time.Millisecond)
			x.Expect(b.Status().Imbalance).To(BeZero())
		}
		stopA()
		stopB()
		a.end()
		b.end()
	})
}

// Replicas enter their terms at the same time, and each marks the recorded
// ranges as adopted. A replica that was not the first tries again at once.
func TestAReplicaThatIsNotFirstAdoptsTheRangesAtOnce(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.ranged("a", nil)
		pass(10 * time.Second)
		once := sync.Once{}
		b := x.rangedBy("b", nil, &updating{x.API.Link(1), func(l *coordinationv1.Lease) error {
			if l.Name == "test" {
				once.Do(func() {
					_, err := x.API.Update(x.config())
					x.Expect(err).NotTo(HaveOccurred())
				})
			}
			return nil
		}})
		pass(30 * time.Second)
		x.Expect(b.logs.Read()).NotTo(ContainElement(ContainSubstring("adopting the recorded ranges failed")))
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 4, "b": 4}))
		b.end()
		a.end()
	})
}
