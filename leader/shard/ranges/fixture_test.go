package ranges_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// fixture is what all tests of Leases share, with replicas of ranges.
type fixture struct{ *leaseapi.Fixture }

// inBubble runs f, after which no slot may have had two owners at once.
func inBubble(t *testing.T, f func(x *fixture)) {
	t.Helper()
	leaseapi.InBubble(t, func(x *leaseapi.Fixture) { f(&fixture{x}) })
}

type diary = leaseapi.Diary

var (
	pass       = leaseapi.Pass
	background = leaseapi.Background
	leaseOf    = leaseapi.LeaseOf
)
