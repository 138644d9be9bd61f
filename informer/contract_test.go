package informer_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/contract"
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
		"Referenced caches only the objects that others refer to, and lists and watches each by its name.": TestOnlyWhatIsReferredToIsListedWatchedAndCached,
		"A referenced object that cannot be read does not affect the others.":                              TestAForbiddenReferenceConcernsNoOtherAndHeals,
		"Get, Snapshot, Select, indexes and iteration copy nothing and allocate nothing.": all(
			TestReadsAllocateNothing, TestIndexReadsAllocateNothing),
		"They do not wait for the watch, nor does the watch wait for them.":                                 TestReadersAndTheWriterDoNotWait,
		"Iteration is sorted by namespace and name.":                                                        TestIndexesAreWhatAScanFinds,
		"A snapshot does not change with the cache.":                                                        TestSnapshotStaysWhileTheCacheMovesOn,
		"Equal parts of objects are stored once, unless Options.NoSharing is set, and all fields are kept.": TestEqualPartsAreStoredOnceUnlessToldOtherwise,
		"Cached objects that were modified in place are detected, by default in tests, and reported with their fields " +
			"(MutationError).": all(
			TestMutationIsFoundAndNamed, TestMutationOfWhatHasLeftTheCacheIsFound),
		"When a watch broke off, a server that was restored to an earlier state is detected, and all objects are listed " +
			"again.": all(
			TestACacheThatIsAheadOfItsRestoredServerIsListedAgain, TestEveryObjectIsDeliveredAfterARestore),
		"When a handler is called, Get already returns the new state.":                          TestEveryInformerKeepsItsPromises,
		"HasSynced is true once the first list has been stored and delivered to every handler.": TestHasSyncedWaitsForHandlers,
		"WaitForSync, Status and the log say what it is waiting " +
			"for.": all(TestFaultsAreVisible, TestSyncWarningsNameTheReason),
		"An object that was deleted while the watch was down is delivered as Deleted, once.": all(
			TestNoGapLosesADeletion, TestADeletionWhileStoppedIsDelivered),
		"A recreated object is first Deleted and then Added.": TestARecreatedObjectIsDeletedAndThenAdded,
		"A stalled watch, a list that does not end, and a request that gets no answer are replaced.": all(
			TestFrozenWatchIsOpenedAgain, TestBusyStreamWithoutBookmarkIsGivenUp,
			TestAListWhoseAnswerDoesNotEndIsReplaced,
			TestAWatchThatIsNotAnsweredIsOpenedAgain, TestAListThatIsNotAnsweredIsAskedForAgain),
		"A watch that delivers nothing and outlives its timeout proves nothing: all objects are listed again, and a " +
			"second such watch in a row is named.": TestWatchesThatDeliverNothingAreReplacedByListsAndNamed,
		"A server that cannot be reached is logged within two seconds, with the " +
			"cause.": TestAServerThatCannotBeReachedIsLoggedAtOnce,
		"An answer that is not the API server's, such as the {} of a gateway, is not accepted as a list, even if it " +
			"reports success.": all(
			TestAnAnswerThatIsNoListDeletesNothing, TestAnAnswerThatIsNoListIsNoFirstList,
			TestAnAnswerThatIsNoListIsNotTheLastPage, TestAnAnswerThatIsNoListProvesNoDeletion),
		"A cache that is late, incomplete or no longer running proves no deletion (Informer.IsDeleted).": all(
			TestALateCacheProvesNothing, TestWhatCannotBeProvenIsFalse, TestAnInformerThatHasEndedProvesNothing),
		"If it is not known which namespaces a client reads, an object is not taken for deleted in a namespace from " +
			"which the client has returned no object.": TestWhatAHandwrittenClientReadsIsNotKnownBeforeItHasObjects,
		"Many deletions are confirmed by one request.": TestManyDeletionsAreConfirmedByOneRequest,
		"An object that Go cannot decode, or for which Options.Transform or an index panics, affects no other object.": all(
			TestAnUnreadableObjectIsLeftOutAndNamed, TestATransformThatPanicsLeavesOneObjectOut,
			TestAnIndexThatPanicsLeavesOneObjectOut),
		"It proves no deletion, is named in Status.Problems with the field, and heals when it is changed or deleted " +
			"(Informer.Unreadable).": all(TestAnUnreadableObjectComesAndGoes,
			TestAListKeepsTheLastGoodStateOfAnUnreadableObject),
		"Calls of Run may overlap: the first one starts the watch, and the last one to end stops it.": all(
			TestRunsOverlapAndStartAgain, TestRunWaitsForTheOneThatIsStopping),
		"It works with client-go's fake clients, and in testing/synctest.": all(
			TestTypedFake, TestDynamicFake, TestMetadataFake),
	})
}
