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
			"none.": all(TestOwnRefusesWhatWouldBePunished, ensureRefusesWhatWouldBePunished),
		"A child that another owner controls is neither written nor deleted.": all(
			TestOwnRefusesAChildOfAnotherOwner, foreignChildrenAreLeftAlone),
		"Ensure sends no request when all children are as wanted and there are no others.": sendsNothing,
		"Wrong arguments are a terminal error before any request.":                         TestWrongArgumentsAreTerminal,
		"An owner that is being deleted gets no children.":                                 dyingOwnersGetNothing,
		"A wanted child that fails does not stop the others from being " +
			"written.": TestAFailureIsReportedAndTheOthersAreWritten,
		"Nothing is deleted unless every wanted child is there and stays.": all(wantedComeFirst,
			TestNothingIsDeletedWhileAWantedChildIsBeingDeleted, TestAContextThatEndsDeletesNothing),
		"Nothing is deleted if more than MaxCount children and more than MaxShare of those that were there before would be: " +
			"ErrLimit names the owner and the numbers.": all(TestTheLimitOfAHundredChildren, TestAllChildrenRenamedAreTooMany),
		"A child whose edit changes an immutable field is an error that names the field, and its other changes are " +
			"written.": TestAnImmutableFieldIsNamedAndTheRestIsWritten,
		"At most MaxRecreate children in a call are deleted instead, to be created again.": all(
			TestAtMostMaxRecreateChildrenAreCreatedAgain, TestALateOwnerRecreatesNothing),
		"Before children are deleted or adopted, the server confirms that the owner is unchanged since it was read, so " +
			"that a late cache does no harm.": all(TestALateOwnerDeletesNothing, TestALateOwnerAdoptsNothing),
		"A child is deleted only as it was cached, by its UID and resourceVersion.": TestAChildIsDeletedAsItWasCached,
		"An object that no owner controls is left alone, unless it has the name of a wanted child and the labels of Options.Mark.": all(
			orphansAreLeftAlone, TestAMarkedOrphanIsAdopted, TestAnOrphanThatTheCacheDoesNotHaveIsAdoptedToo),
	})
}
