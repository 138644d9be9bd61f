// Package published tells versions of controllers apart that others have
// published: those with a bug that is on record, and those with its repair. The
// controllers, each in a module of its own, are in the folders below.
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

// Bug is one that is on record, and how it is found.
type Bug struct {
	// Of is a function of the controller, such as the one that makes it.
	Of any
	// Fixed is the first version of its module that does not have the bug.
	Fixed string
	// Case is explored with every version.
	Case *reconciletest.Case
	// Options of the exploration, whose budget is [Budget].
	Options reconciletest.Options
	// Oracle finds the bug, and Says is a regular expression of its message.
	Oracle, Says string
}

// Budget of an exploration: none takes that long, so the tried runs depend only
// on the plan, and not on the load of the machine.
const Budget = time.Hour

// Told explores the case with the version that the test program is linked with.
// It fails the test if a version with the bug is not accused of it, or one
// without it is.
func (b *Bug) Told(t *testing.T) {
	t.Helper()
	module, version := results.Version(t, b.Of)
	o := b.Options
	o.Budget = Budget
	r := results.Search(t, b.Of, b.Case, &o)
	first, _, _ := strings.Cut(r.Failure, "\n")
	switch {
	case semver.Compare(version, b.Fixed) < 0:
		if r.Oracle != b.Oracle || !regexp.MustCompile(b.Says).MatchString(r.Failure) {
			t.Errorf("%s %s has a bug that is not found: %q by %q, want %q by %q", module, version, first, r.Oracle,
				b.Says, b.Oracle)
		}
	case r.Failure == "":
		if !r.Covered() {
			t.Errorf("not everything was tried: %v", r)
		}
	default:
		t.Errorf("%s %s is accused: %s", module, version, first)
	}
}
