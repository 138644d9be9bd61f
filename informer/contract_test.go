package informer_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/proof/contract"
)

// all runs several tests for one promise.
func all(tests ...func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		for _, test := range tests {
			test(t)
		}
	}
}

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"Get, Snapshot, Select, indexes and iteration copy nothing and allocate nothing.": all(
			TestReadsAllocateNothing, TestIndexReadsAllocateNothing),
		"They do not wait for the watch, nor does the watch wait for them.":                                TestReadersAndTheWriterDoNotWait,
		"Iteration is sorted by namespace and name.":                                                       TestIndexesAreWhatAScanFinds,
		"A snapshot stays as it is while the cache changes.":                                               TestSnapshotStaysWhileTheCacheMovesOn,
		"Equal parts of objects are stored once, unless Options.NoSharing is set, and nothing is dropped.": TestEqualPartsAreStoredOnceUnlessTold,
		"Cached objects that were modified in place are found, in tests by default, and reported with the fields (MutationError).": all(
			TestMutationIsFoundAndNamed, TestMutationOfWhatHasLeftTheCacheIsFound),
		"When a handler is called, Get returns the new state already.":                          TestEveryInformerKeepsItsPromises,
		"HasSynced is true once the first list has been stored and delivered to every handler.": TestHasSyncedWaitsForHandlers,
		"WaitForSync, Status and the log say what it waits for.":                                all(TestFaultsAreVisible, TestSyncWarningsNameTheReason),
		"An object that was deleted while the watch was down is delivered as Deleted, once.": all(
			TestNoGapLosesADeletion, TestDeletionWhileStoppedIsHandedOn),
		"A recreated object is first Deleted and then Added.": TestARecreatedObjectIsDeletedAndThenAdded,
		"A watch that has stalled, a streaming list without an end, and a request without an answer are replaced.": all(
			TestFrozenWatchIsOpenedAgain, TestBusyStreamWithoutBookmarkIsGivenUp,
			TestAWatchThatIsNotAnsweredIsOpenedAgain, TestAListThatIsNotAnsweredIsAskedForAgain),
		"A server that cannot be reached is in the log within two seconds, with the cause.": TestAServerThatCannotBeReachedIsLoggedAtOnce,
		"A cache that is late, incomplete or no longer running proves no deletion (Informer.IsDeleted).": all(
			TestALateCacheProvesNothing, TestWhatCannotBeProvenIsFalse, TestAnInformerThatHasEndedProvesNothing),
		"Many deletions are confirmed by one request.": TestManyDeletionsAreConfirmedByOneRequest,
		"Calls of Run may overlap: the first one starts the watch, and the last one to end stops it.": all(
			TestRunsOverlapAndStartAgain, TestRunWaitsForTheOneThatIsStopping),
		"It works with client-go's fake clients, and in testing/synctest.": all(
			TestTypedFake, TestDynamicFake, TestMetadataFake),
	})
}
