package crpatch_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/contract"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"Only the differences are sent, and no request is sent without a difference.": TestItWritesWhatDiffers,
		"A recreated object is not written to.":                                       TestARecreatedObjectIsNotWrittenTo,
		"A dry run remains a dry run.":                                                TestADryRunStaysOne,
		"If the cache was wrong, the API server is asked.":                            TestWhereTheCacheWasWrongTheServerIsAsked,
		"It works with controller-runtime's fake client.":                             TestItRunsOnTheFakeClient,
	})
}
