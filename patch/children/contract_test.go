package children_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/contract"
)

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
		"An owner reference that the garbage collector would mishandle is refused: to an owner without a UID, and to a " +
			"namespaced owner from a child in a different namespace or in " +
			"none.": all(TestOwnRefusesReferencesThatTheGarbageCollectorPunishes, ensureRefusesWhatWouldBePunished),
		"With a mark, a child may be in another namespace than its owner, and a namespaced owner may have cluster-scoped " +
			"children.": all(
			TestAMarkOwnsAcrossNamespaces, TestANamespacedOwnerHasClusterScopedChildrenByLabel),
		"A mark makes an object a child only of the owner whose UID it contains.": all(
			TestWhatIsNotMarkedWithTheUIDIsNeitherWrittenNorDeleted, TestADeletedOwnerDoesNotTakeTheChildrenOfTheNewOne),
		"With Options.Origin, the children of owners of other clusters are neither adopted nor " +
			"deleted.": TestTheChildrenOfAnotherClustersOwnersAreNeitherTakenNorDeleted,
		"Owners whose API server has another address than their children's are refused without " +
			"it.": TestOwnersInAnotherClusterNeedAnOrigin,
		"A copy of a marked child that another client has made is not deleted.": all(
			TestACopyOfAChildIsNotDeleted, TestDeleteAllLeavesCopiesOfAChild),
		"It becomes a child only if it has the name of a wanted one.": TestACopyInThePlaceOfAWantedChildBecomesIt,
		"A child that another owner controls is neither written nor deleted.": all(
			TestOwnRefusesAChildOfAnotherOwner, foreignChildrenAreLeftAlone),
		"Ensure sends no request when all children are as wanted and there are no others.": sendsNothing,
		"Wrong arguments are a terminal error before any request.":                         TestWrongArgumentsAreTerminal,
		"An owner that is being deleted gets no children.":                                 dyingOwnersGetNothing,
		"A wanted child that fails does not stop the others from being " +
			"written.": TestAFailureIsReportedAndTheOthersAreWritten,
		"Nothing is deleted in a namespace unless every wanted child there exists and stays.": all(wantedComeFirst,
			TestAFailureInANamespaceKeepsTheChildrenOfThatNamespaceOnly,
			TestNothingIsDeletedWhileAWantedChildIsBeingDeleted, TestAContextThatEndsDeletesNothing),
		"Nothing is deleted if more than MaxCount children and more than MaxShare of those that were there before would be: " +
			"ErrLimit names the owner and the numbers.": all(TestTheLimitOfAHundredChildren, TestAllChildrenRenamedAreTooMany),
		"The limit does not apply after a change of the owner's spec that the Set has seen, and to deletions that " +
			"ConfirmAnnotation confirms.": all(TestAChangedSpecMayWantFewerChildren, TestAfterARestartNoChangeOfTheSpecIsKnown,
			TestAnAnnotationOfTheOwnerConfirmsTheDeletionsThatTheErrorIsAbout),
		"If an edit changes an immutable field of a child, the error names the field, and the child's other changes are " +
			"written.": TestAnImmutableFieldIsNamedAndTheRestIsWritten,
		"Instead, up to MaxRecreate such children in a call are deleted, and created again later.": all(
			TestAtMostMaxRecreateChildrenAreCreatedAgain, TestALateOwnerRecreatesNothing),
		"A child that comes back without the wanted values is not deleted again for them.": all(
			TestAChildThatIsCreatedAgainWithoutTheWantedValuesIsNotDeletedAgain,
			TestAControllerDeletesAStatefulSetThatAWebhookChangesOnce),
		"Before children are deleted or adopted, the server confirms that the owner is unchanged since it was read, so " +
			"that a late cache does no harm.": all(TestALateOwnerDeletesNothing, TestALateOwnerAdoptsNothing),
		"A child is deleted only as it was cached, by its UID and resourceVersion.": TestAChildIsDeletedAsItWasCached,
		"An object without an owner is left alone, unless it has the name of a wanted child and the labels of " +
			"Options.Mark, or Options.Adopt takes it.": all(orphansAreLeftAlone, TestAMarkedOrphanIsAdopted,
			TestAnOrphanThatTheCacheDoesNotHaveIsAdoptedToo, TestAdoptTakesOnlyObjectsWithoutAnOwner),
		"Children that a deleted owner has left behind, by label, are deleted once the server says that no owner has that " +
			"UID.": all(TestOrphansOfADeletedOwnerAreDeletedWhenTheServerSaysThatItIs,
			TestAnAnswerThatProvesNothingDeletesNoOrphans),
		"A recreated owner adopts or deletes them.": TestTheOrphansOfARecreatedOwnerAreAdoptedOrDeleted,
	})
}
