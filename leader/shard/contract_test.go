package shard_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Shards implement the interface that package reconcile expects.
var (
	_ inspect.Elector = (*shard.Shards)(nil)
)

// trying returns the test of a promise that runs in a fixture.
func trying(f func(x *fixture)) func(t *testing.T) {
	return func(t *testing.T) { inBubble(t, f) }
}

// all returns a test that runs several tests of one promise.
func all(tests ...func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		for _, test := range tests {
			test(t)
		}
	}
}

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"A slot goes to another replica only after its function has returned, and not while a cut-off request of its " +
			"member can still " +
			"arrive.": all(TestAPlannedMoveWaitsForReconcilesInFlight, TestASlotWhoseRequestsWereCutOffIsNotGivenAway),
		"The slots of a dead member become free once its record has been changed by compare-and-swap, after a whole " +
			"lease duration without a " +
			"renewal.": all(TestShardsDivideAndFollowTheMembers, TestTheRecordOfADeadMemberThatOthersTouchExpires),
		"A late watch cannot create a second owner: the swap fails if the member is " +
			"alive.": TestALateWatchDoesNotEndALiveMembership,
		"Each term of a membership has its own holder name.":               trying(termsHaveNames),
		"A member that joins for less than Options.Settle moves no slots.": TestAShortVisitMovesNoSlots,
		"After that, shares differ by at most one, and no more slots move than " +
			"necessary.": func(t *testing.T) { changeMembers(t, 3) },
		"A member that renews but does not take its slots is skipped.": all(
			TestAMemberThatDoesNotTakeItsSlotsIsSkipped, TestManyUnresponsiveMembersCostNoMoreTimeThanOne),
		"A member that stops gives up its slots as they drain, and gets no more.": TestStoppingMemberGetsNoMoreSlots,
		"Keys left with a slot pass to its next owner, and stay with the slot until that owner releases " +
			"it.": trying(keysMoveWithTheirSlot),
		"While one replica is undisturbed, a slot has an owner again at most 2 × LeaseDuration, 30 s, after its last " +
			"owner released it or last renewed its membership, whatever happens to the other replicas.": oneWorld,
		"A replica that disagrees with the recorded number of slots, hash or key part does not join: ErrConfig.": all(
			TestReplicaThatDividesDifferentlyDoesNotJoin, trying(anotherHash)),
	})
}

// termsHaveNames ends memberships by deleting their records, and expects a
// different holder's name in each term.
func termsHaveNames(x *fixture) {
	seen := map[string]bool{}
	a := x.shards("a", nil)
	for range 5 {
		pass(20 * time.Second)
		l, err := x.API.Get("test-member-a")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(seen).NotTo(HaveKey(*l.Spec.HolderIdentity))
		seen[*l.Spec.HolderIdentity] = true
		slot, err := x.API.Get("test-slot-0")
		x.Expect(err).NotTo(HaveOccurred())
		x.Expect(slot.Spec.HolderIdentity).To(Equal(l.Spec.HolderIdentity))
		x.API.Delete("test-member-a")
	}
	pass(time.Minute)
	a.end()
}

func anotherHash(x *fixture) {
	a := x.shards("a", nil)
	pass(10 * time.Second)
	a.end()
	l, err := x.API.Get("test")
	x.Expect(err).NotTo(HaveOccurred())
	for name := range l.Annotations {
		if strings.HasSuffix(name, "/hash") {
			l.Annotations[name] = "another"
		}
	}
	_, err = x.API.Update(l)
	x.Expect(err).NotTo(HaveOccurred())
	b := newShards(x.T, x.API.Link(2), "b", nil)
	x.Expect(b.Run(x.T.Context(), x.Work("b", 0))).To(MatchError(shard.ErrConfig))
	synctest.Wait()
}
