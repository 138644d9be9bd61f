package zoo_test

import (
	"testing"
	"time"

	"github.com/homeostat/homeostat/internal/proof/zoo"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// The kit tells a model of a bug on record from the model of its fix. No model
// has a Goal.
func TestModelsOfBugsOnRecord(t *testing.T) {
	for _, m := range zoo.Models() {
		t.Run(m.Name, func(t *testing.T) {
			explored := func(run zoo.Program, budget time.Duration) *reconciletest.Report {
				c := m.World()
				c.Run = run
				r := reconciletest.Search(t, c, &reconciletest.Options{Budget: budget, Steps: 2_000})
				t.Logf("%v, in %v\n%s", r, r.Elapsed, r.Failure)
				return r
			}
			if r := explored(m.Bug, toFind); r.Oracle != m.Found {
				t.Errorf("found by %q, want %q", r.Oracle, m.Found)
			}
			if r := explored(m.Fixed, *toPass); r.Failure != "" {
				t.Error("the fixed one must pass")
			}
		})
	}
}
