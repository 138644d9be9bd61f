// Package published tells versions of controllers apart that others have published: those with a bug that is on record,
// and those with its repair. The controllers, each in a module of its own, are in the folders below.
package published

import (
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/semver"

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
	// Oracle is what finds the bug, and Says a regular expression of what it says.
	Oracle, Says string
}

// Budget of an exploration: several times what it takes, for machines that have other things to do.
const Budget = 5 * time.Minute

// Told explores the case with the version that the test program is linked with. It fails the test if a version with the
// bug is not accused of it, or one without it is.
func (b *Bug) Told(t *testing.T) {
	t.Helper()
	module, version := linked(t, b.Of)
	o := b.Options
	o.Budget = Budget
	r := reconciletest.Search(t, b.Case, &o)
	t.Logf("%s %s: %v in %v; oracle %q, %d lines\n%s", module, version, r, r.Elapsed.Round(time.Second/10), r.Oracle,
		len(r.Trace), r.Failure)
	first, _, _ := strings.Cut(r.Failure, "\n")
	switch {
	case semver.Compare(version, b.Fixed) < 0:
		if r.Oracle != b.Oracle || !regexp.MustCompile(b.Says).MatchString(r.Failure) {
			t.Errorf("%s %s has a bug that is not found: %q by %q, want %q by %q", module, version, first, r.Oracle,
				b.Says, b.Oracle)
		}
	case r.Failure == "":
		if !r.Covered() {
			t.Errorf("not all was tried: %v", r)
		}
	default:
		t.Errorf("%s %s is accused: %s", module, version, first)
	}
}

// versionOf is the module and its version in the name of a file.
var versionOf = regexp.MustCompile(`([^/@]+)@(v[0-9][^/]*)`)

// linked returns the module and the version that a function is of, which the name of its file tells: the program itself
// does not say, if it is a test.
func linked(t *testing.T, function any) (module, version string) {
	t.Helper()
	pc := reflect.ValueOf(function).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	found := versionOf.FindStringSubmatch(file)
	if found == nil {
		t.Fatalf("reading the version of a controller: %q is not of a module", file)
	}
	return found[1], found[2]
}
