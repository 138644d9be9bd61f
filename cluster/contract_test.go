package cluster_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/contract"
)

// all returns a test that runs several tests of one promise.
func all(tests ...func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		for _, test := range tests {
			test(t)
		}
	}
}

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"Every write is seen: a write by a client of that config with the context of a reconcile is recorded, before it " +
			"is sent and when it is answered, and package reconcile holds the key until its caches show it.": all(
			TestEveryWriteIsSeen, TestADeleteOfWhatTheCacheHasNotSeenIsWaitedFor, TestAnEvictionIsADeleteOfThePod),
		"The client need not report anything.":                             TestEveryWriteIsSeen,
		"A write that no cache will show causes no delay.":                 TestAWriteThatNoCacheShowsDelaysNoKey,
		"Clients do not throttle themselves: the server has flow control.": TestClientsAreNotThrottledUnlessAsked,
		"The client for built-in kinds speaks protobuf, clients for your own kinds JSON.": all(
			TestTheClientOfBuiltInKindsSpeaksProtobuf, TestAKindReadsAndWritesWithoutGeneratedCode),
		"Check reports a kind that the server does not have under its name, with what the server has " +
			"instead.": TestCheckNamesWhatTheServerHasInstead,
		"An answer that reports success but is not an API server's, such as a redirect to a login page or the {} of a " +
			"gateway, is an error.": TestAnAnswerOfAProxyIsAnError,
		"A Retry-After of more than a minute, which no API server sends, is cut to a " +
			"minute.": TestAMaintenancePageDoesNotDecideWhenToAskAgain,
		"In a reconcile, an answer whose Retry-After is more than a second is an error at " +
			"once.": TestADelayIsInTheErrorOfTheRequest,
		"The error contains the delay, after which package reconcile retries the " +
			"key.": all(TestADelayIsInTheErrorOfTheRequest, TestAnAnswerThatAsksForADelayHoldsNoWorker),
		"An answer from a cache or a part of one, as the header Age or the status 206 shows, is an error, whatever it " +
			"says.": TestTheRightAnswerOfAProxyIsAnError,
		"If requests have failed for half a minute and none has succeeded, the next ones use a new connection, which another API " +
			"server behind the same address may accept.": TestAClientLeavesAnAPIServerThatFails,
		"Requests and all other answers are not changed.": all(
			TestAnAnswerIsReadAsFarAsNecessary, TestWhatServersAnswerIsNotChanged),
		"Watches, exec, logs and proxies are passed through unread.": TestStreamsAndReadsArePassedThrough,
		"It can be combined with a leader's fence, in either order.": TestAFenceAndAClusterComposeInEitherOrder,
		"A write that a fence beneath it refuses before it is sent is not waited " +
			"for.": TestAWriteThatAFenceRefusesDelaysNoKey,
	})
}
