package reconcile_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

func all(tests ...func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		for _, test := range tests {
			test(t)
		}
	}
}

func TestAsManyKeysAtOnceAsThereAreWorkers(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b", "c", "d", "e")
		c := w.made(&reconcile.Options{Workers: 3}, func(context.Context, request) (reconcile.Result, error) {
			<-time.After(time.Second)
			return nothing, nil
		})
		stop := w.startRun(c.Run)
		w.reconciled()
		w.Expect(c.Stats().Active).To(Equal(3))
		pass(3 * time.Second)
		w.Expect(c.Stats().Reconciles[inspect.Succeeded]).To(BeEquivalentTo(5))
		w.Expect(stop()).To(Succeed())
	})
}

// Every sentence of the contract in doc.go is held by the tests beside it.
func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"A key is reconciled only once it is known, for each object that its own object refers to, whether that object " +
			"exists (References).": all(
			TestAChangeOfAnObjectReconcilesTheKeysThatReferToIt),
		"If an object cannot be read, only the keys that refer to it fail.": all(
			TestKeysWhoseReferencesAreForbiddenFailAndNoOthersAndHeal),
		"No reconcile starts before every informer of the controller has delivered its first " +
			"list.": TestNoReconcileBeforeEveryCacheHasItsFirstList,
		"An optional controller waits for its caches without keeping the process from being ready, and starts by itself " +
			"when its kind is installed or its cluster answers.": TestAnOptionalControllerStartsWhenItsKindIsServed,
		"If namespaces are independent (informer.Options), the list of the key's namespace is enough.": all(
			TestAMissingNamespaceStopsOnlyItself, TestAKeyWaitsForEachCacheOfItsNamespace),
		"An object that an informer does not read, or whose namespace has not been listed, is not taken for deleted: its " +
			"key is not reconciled.": all(
			TestAKeyOfAForeignNamespaceIsNotReconciled, TestAnObjectThatLeavesTheSelectorIsNotDeleted,
			TestObjectsOfANamespaceThatSetNamespacesLeavesOutAreNotDeleted, TestSetNamespacesTakesUpAMissingNamespaceLater),
		"A key whose object cannot be read, because Go cannot decode it, fails with an error that names the field, until " +
			"the object is changed.": TestAKeyWhoseObjectIsUnreadableFails,
		"Its reconciler is not called meanwhile: such an object is not " +
			"deleted.": TestAnUnreadableObjectThatWasNeverCachedIsNoOrphan,
		"One reconcile at a time per key, and as many keys at once as there are " +
			"workers.": all(TestOneKeyIsNeverWorkedOnTwiceAtOnce, TestAsManyKeysAtOnceAsThereAreWorkers),
		"Read your writes: the next reconcile of a key starts when the caches have seen what the last one " +
			"wrote.": TestAControllerReadsItsOwnWrites,
		"A deadline bounds the wait.": TestAKeyWaitsNoLongerThanTheDeadline,
		"An attempt after which nothing observed has changed doubles the key's delay, however it ended: error, panic, " +
			"conflict, After of less than 50 ms.": TestEveryKindOfRepetitionDoublesItsDelay,
		"The first three conflicts in a row are retried soon and quietly.": TestTheFirstConflictsAreQuickAndQuiet,
		"A persistent conflict counts as a failure, and a conflict with another field manager counts as a failure at " +
			"once.": all(
			TestAConflictThatStaysIsLoggedCountedAndShown, TestAConflictWithAnotherFieldManagerIsNoStaleCache),
		"A key that fails with a Terminal error waits for a change, and a key that fails with After is retried after " +
			"exactly that delay, even if the error wraps others.": all(
			TestTerminalRestsUntilTheObjectChanges, TestTerminalAndAfterWinOverWhatTheyWrap),
		"A Terminal error that is joined with another error is retried.": TestErrors,
		"A key that makes the same write again and again is reported, and its reaction to changes of that object is slowed " +
			"down, to once a minute at most.": all(
			TestAControllerThatWakesItselfIsSlowedDownAndNamed, TestAnObjectThatIsDeletedAgainAndAgainIsCreatedOnceAMinute),
		"Every other cause reconciles it at once.":                TestARandomWorldOfLoops,
		"An isolated edit by another client is repaired at once.": TestAnIsolatedEditIsRepairedWithinASecond,
		"One key's failure affects no other: a panic, runtime.Goexit, or an error that cannot be printed costs neither " +
			"a worker nor another key.": all(
			TestAPanicIsAnErrorOfItsKey, TestGoexitCostsNeitherWorkerNorKey, TestATypedNilErrorFailsItsKey),
		"A call that ignores its context is logged with its stack, counted and shown.": all(
			TestAReconcileThatIgnoresItsTimeoutIsNamed, TestAHookThatHangsIsNamed),
		"If there are several workers, at most half of them reconcile keys whose last reconcile failed after more than ten " +
			"seconds, or had not ended at its timeout.": all(
			TestKeysThatFailSlowlyDelayNoOther, TestOneWorkerReconcilesKeysThatFailSlowly),
		"Such keys wait in turn, and one with a change since then does not wait for all keys without one.": all(
			TestKeysThatFailSlowlyTakeTurnsWithALongMinInterval, TestAChangeDoesNotWaitForAllKeysThatFailSlowly),
		"With Options.Leader reconciles run only while this replica leads, with Options.Shards only for the keys of its " +
			"shards.": all(
			TestReconcilesRunOnlyWhileThisReplicaLeads, TestReconcilesRunForTheSlotsThatThisReplicaHas),
		"A new leader, and the new owner of a shard, start with caches that have seen the previous replica's writes.": all(
			TestANewLeaderBeginsWhenItsCachesHaveSeenWhatTheLastOneWrote,
			TestReconcilesOfASlotBeginWhenTheCacheHasSeenWhatTheLastOwnerWrote),
		"A minute bounds that wait.": TestANewLeaderWaitsNoLongerThanAMinute,
		"A controller works on one cluster: a trigger from another cluster is an error of New, as far as clients reveal " +
			"which server they talk to.": TestTriggersMustReadFromTheControllersOwnCluster,
		"The stop is graceful: no new keys, then the reconciles in flight end, then the informers.": TestStop,
		"A call that ignores the stop is named in the error of Run, and keeps the leadership until the call ends.": all(
			TestAReconcileThatIgnoresTheStopIsNamedByRun, TestAReconcileThatIgnoresTheStopKeepsTheLeadership,
			TestAListOfKnownNamesThatHangsHoldsUpNoStop),
		"Keys from outside the cluster come through External, with back-pressure.": all(
			TestExternalKeysFromAChannelAreReconciled, TestExternalKeysWaitForRoom),
		"A reconciler gets the key and the object, never the event.":      TestAReconcilerCannotReadCauses,
		"Logs carry the causes of a reconcile.":                           TestTheLogOfAReconcileNamesKeyAndCauses,
		"Without a logger in the context, they go to the logger of klog.": TestWithoutALoggerInTheContextKlogsIsUsed,
	})
}
