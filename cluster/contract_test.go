package cluster_test

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
		"Every write is seen: what a client of that config writes with the context of a reconcile is noted, before it is sent and " +
			"when it is answered, and package reconcile holds the key until its caches show it.": all(
			TestEveryWriteIsSeen, TestADeleteOfWhatTheCacheHasNotSeenIsWaitedFor, TestAnEvictionIsADeleteOfThePod),
		"The client need not report anything.":                                  TestEveryWriteIsSeen,
		"A write that no cache will show holds nothing up.":                     TestWhatNoCacheWillShowHoldsNothingUp,
		"Clients are not throttled on their side: the server has flow control.": TestClientsAreNotThrottledUnlessAsked,
		"The client of built-in kinds speaks protobuf, those of one's own JSON.": all(
			TestTheClientOfBuiltInKindsSpeaksProtobuf, TestAKindReadsAndWritesWithoutGeneratedCode),
		"A kind that the server does not have under its name is named by Check, with what the server has instead.": TestCheckNamesWhatTheServerHasInstead,
		"Requests and answers are not changed.":                                     TestAnAnswerIsReadAsFarAsItTells,
		"Watches, exec, logs and proxies are passed through unread.":                TestStreamsAndReadsArePassedThrough,
		"So is all that is sent outside a reconcile.":                               TestOutsideAReconcileNothingIsRead,
		"It may be combined with a leader's fence, in either order.":                TestAFenceAndAClusterComposeInEitherOrder,
		"A write that a fence below refuses, before it is sent, is not waited for.": TestAWriteThatAFenceRefusesHoldsNothingUp,
	})
}
