package clientgo_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/contract"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"Handlers are called as client-go calls them: with the same old and new states in the same order for each " +
			"object, including tombstones and resyncs.": func(t *testing.T) {
			t.Run("changes and lists", TestHandlersAreCalledAsByClientGo)
			t.Run("resyncs", TestHandlersAreResyncedAsByClientGo)
		},
		"When a handler is called, the store and its indexes have the new state.":                                                  TestHandlersFindTheNewState,
		"Handlers do not wait for one another, and the watch does not wait for them.":                                              TestABlockedHandlerDelaysNoOther,
		"A handler that is added later first gets every object that is stored, as one of the initial list, and then every change.": TestALateHandlerGetsEveryObject,
		"A second Run returns at once, a stopped informer takes neither handlers nor indexers, and other wrong use gets " +
			"client-go's errors.": TestWrongUseGetsTheAnswerOfClientGo,
		"An informer that has stopped keeps its objects.":                                                              TestAStoppedInformerKeepsItsObjects,
		"Equal parts of objects are stored once.":                                                                      TestEqualPartsAreStoredOnce,
		"An object that the ListerWatcher may retain, because it has not just been received from a server, is copied.": TestObjectsOfOthersAreCopied,
		"If the transport is wrapped with ReuseSpecs, a spec that has not changed is not decoded again.":               TestAnUnchangedSpecIsNotDecodedAgain,
		"Handlers, transform functions, and wrappers around a watch get whole objects.": func(t *testing.T) {
			t.Run("handlers", TestHandlersGetWholeObjectsThoughSpecsAreReused)
			t.Run("others", TestASpecThatOtherCodeMayReadIsDecoded)
		},
		"DropManagedFields is a transform function with which specs are reused, too.":              TestASpecIsReusedWithoutManagedFields,
		"Objects that were modified in place are detected in tests, and logged with their fields.": TestModifiedObjectsAreLogged,
		"A stalled watch is replaced.": TestAStalledWatchIsReplaced,
		"An answer that is not the API server's is not accepted as a list, even if it reports success.": TestAGatewaysAnswerIsNoList,
		"An object for which the transform function or the function of an index panics affects no other object, and is named " +
			"in the log and by Informers.": TestAPanicConcernsOneObject,
		"An object that the client cannot decode fails the whole list, as with client-go, until it is corrected; Informers " +
			"has the error, with the field.": TestAnObjectThatClientGoCannotDecodeFailsTheList,
	})
}
