package controllerruntime_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/contract"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"The first Get of an object reads it from the server, and from then on it is watched by its " +
			"name.": TestTheFirstGetReadsAndWatchesOneObject,
		"An object that was read is answered from memory, without a " +
			"request.": TestWhatWasReadIsAnsweredFromMemory,
		"The verbs list and watch on the names that are read are " +
			"enough.": TestOnlyListAndWatchByNameAreSent,
		"An object that the server does not have is " +
			"watched, too.": TestAnAbsentObjectIsWatched,
		"If reading an object is forbidden, only Gets of that object fail, until reading it is " +
			"allowed.": TestAForbiddenObjectIsAnErrorOfItsOwn,
		"Get returns NotFound only if the server's list lacks the object; a status 404 alone does not prove " +
			"that.": TestAStatus404IsNotTheAbsenceOfAnObject,
		"An object that has not been read for Options.Keep is dropped.": TestAnUnreadObjectIsDropped,
		"While a controller watches the kind, an object that was read stays cached as long as it " +
			"exists.": TestAWatchedObjectStaysCached,
		"Handlers get the events of the objects that were read, but no deletion of an object that is only " +
			"dropped.": func(t *testing.T) {
			TestHandlersGetEventsOfWhatWasRead(t)
			TestADropIsNoDeletion(t)
		},
		"A handler that is added later first gets the objects that are cached.": TestALaterHandlerFirstGetsWhatIsCached,
		"A Get sees what the manager's client wrote before it.":                 TestAGetSeesEarlierWrites,
		"The client's EnableReadYourWritesConsistency does not wait for objects that were never " +
			"read.": TestReadYourWritesOfTheClientDoesNotHang,
		"List asks the server, within the namespaces and selectors of the cache's options.": TestListAsksTheServer,
		"List refuses to answer if Options.RefuseLists is set.":                             TestListsAreRefused,
		"A field index works for List, by a function that is applied to what the server has " +
			"sent.": TestAFieldIndexSelectsWhatTheServerSends,
		"Transforms, namespaces and selectors of the cache's options are applied.": TestSettingsOfTheCacheApply,
		"Objects are copied for each Get, unless UnsafeDisableDeepCopy is set.":    TestObjectsAreCopiedUnlessToldOtherwise,
		"Typed, unstructured and metadata-only objects of the kind are separate, as in controller-runtime's own " +
			"cache.": TestRepresentationsAreSeparate,
		"The next reconcile of a key sees in the cache what the last one " +
			"wrote.": TestTheNextReconcileSeesOwnWrites,
		"A creation that is undone in the same reconcile does not hold " +
			"the key.": TestACreationThatIsUndoneDoesNotHoldTheKey,
		"If the answer to a write was lost, the server is asked for the " +
			"outcome.": TestAWriteWithoutAnAnswerIsAskedFor,
		"Writes to other kinds, refused writes and dry runs hold " +
			"nothing.": TestOtherWritesHoldNothing,
		"A key is held for ten seconds at most.": TestAHoldEndsInTime,
		"A manager is refused if its config was not made by " +
			"ObserveWrites.": TestAConfigThatReportsNoWritesIsRefused,
		"A controller runs on the queue as it does on its own queue, with the delays of its " +
			"limiter.": TestAControllerRunsOnTheQueue,
		"A manager that has lost its leadership writes nothing, and ends with an " +
			"error.": TestALostLeadershipEndsTheManagerAndItsWrites,
		"A manager that stops keeps its Lease until its controllers have " +
			"drained.": TestADrainingManagerKeepsItsLease,
		"A standby writes nothing and, with NewCache, has full " +
			"caches.": TestAStandbyIsWarmAndTakesOver,
		"With NewCache, the controllers of a new leader start on caches that have what the previous leader " +
			"wrote.": TestANewLeaderSeesWhatTheLastOneWrote,
		"Runnables that need no election run in every " +
			"replica.": TestRunnablesThatNeedNoElectionRunInEveryReplica,
		"A page names caches that have not synced, and keys whose last reconcile has " +
			"failed.": TestThePageNamesKeysThatFailAndCachesThatHaveNotSynced,
		"A page names at most ten keys of a controller, and how many more " +
			"there are.": TestThePageNamesAtMostTenKeysOfAController,
	})
}
