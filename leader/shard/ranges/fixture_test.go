package ranges_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// fixture is leaseapi.Fixture with methods that start replicas.
type fixture struct{ *leaseapi.Fixture }

// inBubble runs f in virtual time. Then it checks that no slot ever had two
// owners at once.
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
