package children_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/proof/contract"
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
		"A reference that the garbage collector would punish is refused: of an owner without UID, and of an owner in a " +
			"namespace for a child that is in another one or in none.": all(TestOwnRefusesWhatWouldBePunished, ensureRefusesWhatWouldBePunished),
		"A child that another owner controls is neither written nor deleted.": all(
			TestOwnRefusesAChildOfAnotherOwner, foreignChildrenAreLeftAlone),
		"Ensure sends no request when all children are as wanted and there are no others.": sendsNothing,
		"What is wrong with the arguments is a terminal error before any request.":         TestWrongArgumentsAreTerminal,
		"An owner that is being deleted gets no children.":                                 dyingOwnersGetNothing,
		"A wanted child that fails does not keep the others from being written.":           TestAFailureIsReportedAndTheOthersAreWritten,
		"Nothing is deleted unless every wanted child is there and stays.": all(wantedComeFirst,
			TestNothingIsDeletedWhileAWantedChildIsBeingDeleted, TestAContextThatEndsDeletesNothing),
		"Nothing is deleted if more than MaxCount children and more than MaxShare of them would be: ErrLimit names the owner " +
			"and the numbers.": TestTheLimitOfAHundredChildren,
		"Before children are deleted or adopted, the server confirms that the owner is as it was read, so that a late cache " +
			"costs nothing.": all(TestALateOwnerDeletesNothing, TestALateOwnerAdoptsNothing),
		"A child is deleted as it was cached, by its UID and resourceVersion.": TestAChildIsDeletedAsItWasCached,
		"An object that no owner controls is left alone, unless it has the name of a wanted child and the labels of Options.Mark.": all(
			orphansAreLeftAlone, TestAMarkedOrphanIsAdopted, TestAnOrphanThatTheCacheDoesNotHaveIsAdoptedToo),
	})
}
