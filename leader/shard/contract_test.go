package shard_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/contract"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// What package reconcile asks of an Assignment.
var (
	_ inspect.Elector = (*shard.Shards)(nil)
)

// trying is the test of a promise in a fixture.
func trying(f func(x *fixture)) func(t *testing.T) {
	return func(t *testing.T) { inBubble(t, f) }
}

// all runs several tests of one promise.
func all(tests ...func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		for _, test := range tests {
			test(t)
		}
	}
}

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"A slot is given to another only after its function has returned, and not while a request of its member that was cut " +
			"off can still arrive.": all(TestPlannedMoveWaitsForTurnsInFlight, TestASlotWhoseRequestsWereCutOffIsNotGivenAway),
		"The slots of a dead member are free once the member's record has been changed by compare-and-swap after a whole lease " +
			"duration without renewal.": all(TestShardsDivideAndFollowTheMembers, TestTheRecordOfADeadMemberThatOthersTouchExpires),
		"A late watch makes no second owner: the swap fails if the member lives.":           TestLateWatchDoesNotBuryTheLiving,
		"Each term of a membership has a holder's name of its own.":                         trying(termsHaveNames),
		"A member that joins for less than Options.Settle moves no slot.":                   TestShortVisitMovesNothing,
		"After that, shares differ by one at most, and no more slots move than that takes.": func(t *testing.T) { changeMembers(t, 3) },
		"A member that renews but does not take its slots is passed over.": all(
			TestMemberThatTakesNothingIsPassedOver, TestManyMembersThatTakeNothingCostNoMoreTimeThanOne),
		"A member that stops gives up its slots as they are drained, and gets no more.": TestStoppingMemberGetsNoMoreSlots,
		"Keys that are left with a slot (Shards.Leave) come to its next owner, and stay with the slot until that releases " +
			"it.": trying(keysMoveWithTheirSlot),
		"Ranges that are recorded anew are taken up while replicas run.": trying(rangesChangeWhileReplicasRun),
		"A namespace has one owner at most meanwhile, and slots whose ranges stay go on.": all(
			oneWorldOfRanges, trying(aChangeWaitsForAllOwners), trying(aChangeDoesNotWaitForTheDead), trying(weightsChangeWithoutADrain)),
		"Keys that are left with a slot whose range changes come to the owners of their namespaces.": trying(
			keysAreFoundByTheOwnersOfTheirNamespaces),
		"While one replica is undisturbed, a slot has an owner again at most 2 × LeaseDuration, 30 s, after its last one has " +
			"released it or renewed its membership for the last time, whatever happens to the others.": oneWorld,
		"A replica that disagrees with the recorded number of slots, hash or part of the key does not join: ErrConfig.": all(
			TestReplicaThatDividesDifferentlyDoesNotJoin, trying(anotherHash)),
	})
}

// termsHaveNames ends memberships by hand, and wants no holder's name twice.
func termsHaveNames(x *fixture) {
	seen := map[string]bool{}
	a := x.shards("a", nil)
	for range 5 {
		pass(20 * time.Second)
		l, err := x.api.Get("test-member-a")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(seen).NotTo(HaveKey(*l.Spec.HolderIdentity))
		seen[*l.Spec.HolderIdentity] = true
		slot, err := x.api.Get("test-slot-0")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(slot.Spec.HolderIdentity).To(Equal(l.Spec.HolderIdentity))
		x.api.Delete("test-member-a")
	}
	pass(time.Minute)
	a.end()
}

func anotherHash(x *fixture) {
	a := x.shards("a", nil)
	pass(10 * time.Second)
	a.end()
	l, err := x.api.Get("test")
	x.Expect(err).NotTo(HaveOccurred())
	for name := range l.Annotations {
		if strings.HasSuffix(name, "/hash") {
			l.Annotations[name] = "another"
		}
	}
	_, err = x.api.Update(l)
	x.Expect(err).NotTo(HaveOccurred())
	b := newShards(x.t, x.api.Link(2), "b", nil)
	x.Expect(b.Run(x.t.Context(), x.work("b", 0))).To(MatchError(shard.ErrConfig))
	synctest.Wait()
}
