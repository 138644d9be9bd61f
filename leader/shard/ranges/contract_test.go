package ranges_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/contract"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"Ranges are chosen only when it is certain that no replica has a slot: at the first start, or after all " +
			"replicas have stopped.": func(t *testing.T) {
			TestRangesAreChosenAnewWhenAllReplicasHaveStopped(t)
			TestRangesStayWhileAReplicaMayHaveASlot(t)
		},
		"Replicas that start at the same time use the same ranges.": TestReplicasThatStartAtOnceHaveTheSameRanges,
		"A replica adopts the recorded ranges in each term of its membership, and the record is not replaced before that " +
			"term has ended.": func(t *testing.T) {
			TestAReplicaAdoptsTheRangesOfEachTerm(t)
			TestRangesThatAReplicaHasAdoptedAreNotReplaced(t)
		},
		"If the recorded ranges are changed while replicas run, the replicas end with shard.ErrConfig, and no namespace " +
			"has two owners.": TestRangesThatAreEditedEndTheReplicas,
		"When ranges are chosen again, keys that were left with slots are given to the new owners of their " +
			"namespaces.": TestKeysAreFoundByTheOwnersOfTheirNamespaces,
	})
}
