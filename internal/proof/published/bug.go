// Package published distinguishes versions of published controllers that have a
// known bug from versions in which the bug is fixed. The controllers are in the
// folders below, each in its own module.
package published

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/semver"

	"github.com/homeostat/homeostat/internal/proof/published/results"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// Bug is a known bug of a published controller, and the case whose exploration
// finds it.
type Bug struct {
	// Controller is a function of the controller, such as its constructor. It
	// identifies the controller's module.
	Controller any
	// Fixed is the first version of its module that does not have the bug.
	Fixed string
	// Case is explored with every version.
	Case *reconciletest.Case
	// Options are the options of the exploration. Its budget is [Budget].
	Options reconciletest.Options
	// Oracle is the name of the oracle that finds the bug, and Says is a
	// regular expression that matches its message.
	Oracle, Says string
}

// Budget is the budget of an exploration. It is longer than any exploration
// takes, so that the runs depend only on the plan, and not on the load of the
// machine.
const Budget = time.Hour

// Told explores the case with the version of the controller that is linked into
// the test program. If the version has the bug, the test fails unless the
// exploration finds the bug. If the version does not have it, the test fails if
// the exploration finds a failure, or does not try all deviations.
func (b *Bug) Told(t *testing.T) {
	t.Helper()
	module, version := results.Version(t, b.Controller)
	o := b.Options
	o.Budget = Budget
	r := results.Search(t, b.Controller, b.Case, &o)
	first, _, _ := strings.Cut(r.Failure, "\n")
	switch {
	case semver.Compare(version, b.Fixed) < 0:
		if r.Oracle != b.Oracle || !regexp.MustCompile(b.Says).MatchString(r.Failure) {
			t.Errorf("%s %s has a bug that the exploration does not find: the failure is %q by oracle %q, want %q by %q",
				module, version, first, r.Oracle, b.Says, b.Oracle)
		}
	case r.Failure == "":
		if !r.Covered() {
			t.Errorf("not all deviations were tried: %v", r)
		}
	default:
		t.Errorf("%s %s does not have the bug, but the exploration fails: %s", module, version, first)
	}
}
