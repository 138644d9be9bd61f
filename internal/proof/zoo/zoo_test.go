package zoo_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/homeostat/homeostat/internal/proof/zoo"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// toFind is the budget for finding a bug. It is longer than any exploration of
// a specimen takes, so that the runs depend only on the plan, and not on the
// load of the machine.
const toFind = time.Hour

// A whole exploration of a twin takes a second or two: -twin 10s makes all of
// them.
var toPass = flag.Duration("twin", 150*time.Millisecond, "how long each twin is disturbed")

// raced says that the race detector is on. It makes all of this six times as
// slow, so that only every third specimen is looked at.
var raced bool

const third = 3

func TestZoo(t *testing.T) {
	for i, s := range zoo.Catalogue() {
		if raced && i%third != 0 {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Run("bug", func(t *testing.T) { found(t, &s, s.Bug, s.Found) })
			t.Run("twin", func(t *testing.T) { passes(t, &s, s.Twin) })
			if s.SDKBug != nil {
				t.Run("bug on Homeostat", func(t *testing.T) { found(t, &s, s.SDKBug, s.SDKFound) })
			}
			t.Run("twin on Homeostat", func(t *testing.T) { passes(t, &s, s.SDKTwin) })
		})
	}
}

// found: the oracle finds the bug, and needs nothing from the user unless it is
// the user's.
func found(t *testing.T, s *zoo.Specimen, run zoo.Program, oracle string) {
	t.Helper()
	c := s.World()
	if oracle != "goal" {
		c.Goal = nil
	}
	r := search(t, s, c, run, toFind)
	if r.Oracle != oracle {
		t.Errorf("found by %q, want %q", r.Oracle, oracle)
	}
	if want := misled(r, s.Name); oracle != "" && want != "" {
		t.Errorf("the reason is %q, want %q", r.Reason, want)
	}
	t.Logf("%s %d | %d | %.1f s |", row(s), len(r.Trace), r.Runs, r.Processor.Seconds())
}

// row is the beginning of the specimen's line in the document: its name, the
// oracle that finds it, and the result on Homeostat.
func row(s *zoo.Specimen) string {
	sdk := "found, too"
	switch {
	case s.SDKBug == nil:
		sdk = "impossible: " + s.Why
	case s.SDKFound == "":
		sdk = "survives: " + s.Why
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", s.Class, s.Name, s.Found, sdk)
}

func passes(t *testing.T, s *zoo.Specimen, run zoo.Program) {
	t.Helper()
	if r := search(t, s, s.World(), run, *toPass); r.Failure != "" {
		t.Error("the twin must pass")
	}
}

func search(
	t *testing.T, s *zoo.Specimen, c *reconciletest.Case, run zoo.Program, budget time.Duration,
) *reconciletest.Report {
	t.Helper()
	o := s.Options
	c.Run, o.Budget = run, budget
	o.KnownFindings = append(o.KnownFindings, "the program writes nothing") // some must not
	r := reconciletest.Search(t, c, &o)
	t.Logf("%v, in %v\n%s", r, r.Processor, r.Failure)
	return r
}

// Every specimen has all the fields that the document needs.
func TestCatalogueIsComplete(t *testing.T) {
	all, names := zoo.Catalogue(), map[string]bool{}
	for _, s := range all {
		if names[s.Name] {
			t.Errorf("%q: two of that name", s.Name)
		}
		names[s.Name] = true
		if fault := incomplete(&s); fault != "" {
			t.Errorf("%q: %s", s.Name, fault)
		}
	}
	if len(all) < 24 {
		t.Errorf("%d specimens: want 24 at least", len(all))
	}
}

func incomplete(s *zoo.Specimen) string {
	switch {
	case s.Class == "" || s.World == nil || s.Found == "" || s.Bug == nil || s.Twin == nil || s.SDKTwin == nil:
		return fmt.Sprintf("something is missing: %+v", s)
	case s.SDKBug == nil && (s.SDKFound != "" || s.Why == ""):
		return "it cannot be written on Homeostat: only why must be said"
	case s.SDKBug != nil && s.SDKFound == "" && s.Why == "":
		return "it survives on Homeostat: why?"
	}
	return ""
}
