package shard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/proof/leaseapi"
	"github.com/homeostat/homeostat/internal/slots"
	"github.com/homeostat/homeostat/leader/shard"
)

// The ranges of the tests below: four equal ones; of the next version, in which the first two have become one and the
// last was halved; and of one after it.
const (
	firstRanges  = "0:1 4000000000000000:1 8000000000000000:1 c000000000000000:1"
	secondRanges = "0:1:0:2 8000000000000000:1:2:1 c000000000000000:1:3:2 e000000000000000:1:1:2"
	thirdRanges  = "0:1:0:2 8000000000000000:1:2:3 a000000000000000:1:3:3 e000000000000000:1:1:2"
)

// newOverOld has, for each eighth, one of each old slot that its new one waits for: those that its range overlaps, and
// the slot itself.
var newOverOld = [][]int{{0, 2}, {0, 2}, {0, 2}, {0, 2}, {4}, {4}, {6}, {6, 2}}

// eighths are namespaces, one in each eighth of the hashes.
func eighths() (names []string) {
	equal := newChangingRanges()
	for n := range 8 {
		for _, name := range equal.names {
			if keyspace.Of(name)>>61 == uint64(n) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// ranged is a replica of ranges that change. The fixture knows which of the eighths are its.
type ranged struct {
	*shard.Ranges
	name    string
	fixture *fixture
	link    *leaseapi.Link
	stop    context.CancelFunc
	wait    func() error

	mu    sync.Mutex // guards the fields below
	drain time.Duration
	left  map[int][]types.NamespacedName // what it leaves with slots
	found map[string]int                 // keys, and how often
	runs  map[int][][]int                // the eighths with which functions of slots were called
}

func (x *fixture) ranged(identity string) *ranged {
	x.t.Helper()
	l := x.api.Link(int64(len(identity)))
	s, err := shard.NewRanges(leaseOf(l, identity), &shard.Options{Slots: 4})
	x.Expect(err).NotTo(HaveOccurred())
	r := &ranged{
		Ranges: s, name: identity, fixture: x, link: l,
		left: map[int][]types.NamespacedName{}, found: map[string]int{}, runs: map[int][][]int{},
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(x.t.Context())
	r.wait = background(func() error { return r.Run(ctx, r.work) })
	return r
}

func (r *ranged) work(ctx context.Context, slot int) error {
	var mine []int
	for n, name := range eighths() {
		if r.Slot(types.NamespacedName{Namespace: name}) == slot {
			mine = append(mine, n)
		}
	}
	for _, n := range mine {
		r.fixture.take(n, r.name)
	}
	r.mu.Lock()
	r.runs[slot] = append(r.runs[slot], mine)
	for _, key := range r.Left(slot) {
		r.found[key.String()]++
	}
	r.mu.Unlock()
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), shard.ErrMoved) {
		r.fixture.add("slot %d: %v", slot, context.Cause(ctx))
	}
	r.mu.Lock()
	drain := r.drain
	r.Leave(slot, r.left[slot])
	r.mu.Unlock()
	leaseapi.Wait(drain)
	for _, n := range mine {
		r.fixture.leave(n)
	}
	return nil
}

func (r *ranged) end() {
	r.fixture.t.Helper()
	r.stop()
	r.fixture.Expect(r.wait()).To(Succeed())
}

// die is kill -9: nothing of it reaches the API any more.
func (r *ranged) die() {
	r.link.Set(func(l *leaseapi.Link) { l.Fail = errors.New("dead") })
	r.stop()
	_ = r.wait()
}

// set changes the replica while it runs.
func (r *ranged) set(f func(*ranged)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// calls is how often the function of a slot was called by the replicas.
func calls(slot int, of ...*ranged) (n int) {
	for _, r := range of {
		r.set(func(r *ranged) { n += len(r.runs[slot]) })
	}
	return n
}

// slots are those of the eighths, as the replica divides them.
func (r *ranged) slots() (slots []int) {
	for _, name := range eighths() {
		slots = append(slots, r.Slot(types.NamespacedName{Namespace: name}))
	}
	return slots
}

// divide records other ranges.
func (x *fixture) divide(text string) {
	x.t.Helper()
	config, err := x.api.Get("test")
	x.Expect(err).NotTo(HaveOccurred())
	config.Annotations["leader.homeostat.dev/ranges"] = text
	_, err = x.api.Update(config)
	x.Expect(err).NotTo(HaveOccurred())
}

// record returns that of a slot.
func (x *fixture) record(slot int) *coordinationv1.Lease {
	x.t.Helper()
	l, err := x.api.Get(fmt.Sprint("test-slot-", slot))
	x.Expect(err).NotTo(HaveOccurred())
	return l
}

// versions are those of the records, by slot.
func (x *fixture) versions() (versions []string) {
	x.t.Helper()
	for slot := range 4 {
		version, _, _ := strings.Cut(x.record(slot).Annotations["leader.homeostat.dev/division"], "/")
		versions = append(versions, version)
	}
	return versions
}

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
		for _, text := range []string{
			"", "nothing", firstRanges, strings.Replace(secondRanges, "e0", "f0", 1),
			strings.Replace(thirdRanges, "a000000000000000:1:3:3", "a000000000000000:1:3:2", 1), secondRanges + " ",
		} {
			x.divide(text)
			pass(30 * time.Second)
			x.Expect(x.owned()).To(Equal(owned), text)
			x.Expect(a.slots()).To(Equal(divided), text)
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

// A slot whose range changes has nothing to do any more: its orphan waits for the new ranges.
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

// The slots of a dead owner are raised by the others when it can not write any more.
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
		l := x.record(1)
		l.Spec.HolderIdentity = nil
		l.Annotations = map[string]string{"leader.homeostat.dev/division": "2/" + string(config.UID)}
		_, err = x.api.Update(l)
		x.Expect(err).NotTo(HaveOccurred())
		pass(time.Minute)
		x.Expect(calls(1, a)).To(Equal(1))
		x.Expect(x.owned()).To(HaveLen(6))
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
		a.end()
	})
}

// To divide anew, all replicas are stopped, and the record of the configuration is deleted: the versions begin anew.
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

// Whoever deletes the record of the configuration without stopping all replicas gets no namespace with two owners: one that
// starts waits for those that divide by the old one, and these end.
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

// What the last owner by the ranges before an edit releases, a replica that has no slot yet may be about to claim, by the
// same ranges.
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

// The keys of slots are found by the owners of the namespaces, whatever their slots.
func keysAreFoundByTheOwnersOfTheirNamespaces(x *fixture) {
	keys := map[int]types.NamespacedName{}
	for n, name := range eighths() {
		keys[n] = types.NamespacedName{Namespace: name, Name: "x"}
	}
	a := x.ranged("a")
	pass(10 * time.Second)
	a.set(func(r *ranged) {
		for slot := range 4 {
			r.left[slot] = []types.NamespacedName{keys[2*slot], keys[2*slot+1]}
		}
	})
	a.end()
	x.divide(secondRanges)
	b := x.ranged("b")
	pass(10 * time.Second)
	b.set(func(r *ranged) {
		for _, key := range keys {
			x.Expect(r.found).To(HaveKeyWithValue(key.String(), 1))
		}
	})
	b.die() // what it has found is in the records of its slots
	c := x.ranged("c")
	pass(time.Minute)
	c.set(func(r *ranged) {
		for _, key := range keys {
			x.Expect(r.found).To(HaveKeyWithValue(key.String(), 1))
		}
		r.left[3] = []types.NamespacedName{keys[6]}
	})
	c.end()
	d := x.ranged("d")
	pass(time.Minute)
	d.set(func(r *ranged) {
		x.Expect(r.found).To(HaveKey(keys[6].String()))
		for n, key := range keys {
			if n < 6 {
				x.Expect(r.found).NotTo(HaveKey(key.String()), "they are finished with")
			}
		}
	})
	d.end()
}

// What was left with the range that a namespace had is not lost when another owner of its slot comes and goes before.
func TestKeysOfOtherSlotsStayUntilTheseHaveAnOwner(t *testing.T) {
	inBubble(t, func(x *fixture) {
		key := types.NamespacedName{Namespace: eighths()[7], Name: "x"} // in slot 3, and then in slot 1
		a := x.ranged("a")
		pass(10 * time.Second)
		a.set(func(r *ranged) { r.left[3] = []types.NamespacedName{key} })
		x.divide(secondRanges)
		a.set(func(r *ranged) { r.drain = 0 })
		a.end()
		config, err := x.api.Get("test")
		x.Expect(err).NotTo(HaveOccurred())
		for _, slot := range []int{0, 1, 3} { // slot 1 can not be taken, the others can
			l := x.record(slot)
			l.Annotations = map[string]string{
				"leader.homeostat.dev/division": "2/" + string(config.UID), "leader.homeostat.dev/keys": l.Annotations["leader.homeostat.dev/keys"],
			}
			l.Labels["leader.homeostat.dev/record"] = "range"
			if slot == 1 {
				l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = nil, new(int32(120))
			}
			_, err := x.api.Update(l)
			x.Expect(err).NotTo(HaveOccurred())
		}
		b := x.ranged("b")
		pass(10 * time.Second)
		x.Expect(calls(3, b)).To(Equal(1))
		x.Expect(calls(1, b)).To(Equal(0))
		b.end()
		c := x.ranged("c")
		pass(3 * time.Minute)
		x.Expect(calls(1, c)).To(Equal(1))
		c.set(func(r *ranged) { x.Expect(r.found).To(Equal(map[string]int{key.String(): 1})) })
		c.end()
	})
}

func TestKeysThatCouldNotBeLeftGoWithTheirNamespace(t *testing.T) {
	inBubble(t, func(x *fixture) {
		key := types.NamespacedName{Namespace: eighths()[7], Name: "x"} // in slot 3, and then in slot 1
		a := x.ranged("a")
		pass(10 * time.Second)
		a.set(func(r *ranged) { r.left[3] = []types.NamespacedName{key} })
		open := make(chan struct{})
		a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = open, open })
		pass(time.Minute) // fenced
		x.divide(secondRanges)
		a.link.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = nil, nil })
		close(open)
		pass(time.Minute)
		a.set(func(r *ranged) { x.Expect(r.found).To(Equal(map[string]int{key.String(): 1})) })
		x.Expect(x.owned()).To(HaveLen(8))
		a.end()
	})
}

// filling is a cache that notes what was added and removed.
type filling struct {
	slots.Cache

	has []sharding.ShardRangeRequirement
}

func (f *filling) AddShards(
	_ context.Context, shards ...sharding.ShardRangeRequirement,
) (func(...sharding.ShardRangeRequirement), error) {
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
func TestKeysAreFoundByTheOwnersOfTheirNamespaces(t *testing.T) {
	inBubble(t, keysAreFoundByTheOwnersOfTheirNamespaces)
}
