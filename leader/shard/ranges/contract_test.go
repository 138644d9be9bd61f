package ranges_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/contract"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"Ranges are chosen only when certainly no replica has a slot: at the first start, or after all replicas have " +
			"stopped.": func(t *testing.T) {
			TestRangesAreChosenAnewWhenAllReplicasHaveStopped(t)
			TestRangesStayWhileAReplicaMayHaveASlot(t)
		},
		"Replicas that start at once have the same ranges.": TestReplicasThatStartAtOnceHaveTheSameRanges,
		"A replica adopts the recorded ranges in each term of its membership, and nobody replaces them while it has " +
			"them.": func(t *testing.T) {
			TestAReplicaAdoptsTheRangesOfEachTerm(t)
			TestRangesThatAReplicaHasAdoptedAreNotReplaced(t)
		},
		"A replica whose ranges are no longer the recorded ones ends: shard.ErrConfig, and no namespace has two " +
			"owners.": TestRangesThatAreEditedEndTheReplicas,
		"Keys left with slots go to the owners of their namespaces when ranges are chosen " +
			"anew.": TestKeysAreFoundByTheOwnersOfTheirNamespaces,
	})
}
