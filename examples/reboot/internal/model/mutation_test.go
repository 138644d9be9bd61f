//go:build mutate

package model_test

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/overlay"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// mutant is set in a test program that was built with that mutant's edits.
var mutant = flag.String("mutant", "", "look for what breaks in the sources as they are, which are those of this mutant")

// long is more than any of them takes on a busy machine: the findings do not
// depend on the time, as the runs are the same ones in the same order.
const long = 5 * time.Minute

func TestMutantsBreakANamedInvariant(t *testing.T) {
	if *mutant != "" {
		t.Skip("this is a mutant")
	}
	for _, s := range safeguards() {
		t.Run(s.without, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			files, err := overlay.Apply("..", s.edits...)
			g.Expect(err).NotTo(HaveOccurred())
			here, err := filepath.Abs(".")
			g.Expect(err).NotTo(HaveOccurred())
			if unit := s.finder.tested; unit.name != "" {
				seenByTest(t, files, unit)
				return
			}
			program, err := overlay.Build(t.Context(), t.TempDir(), here, files, "-tags=mutate")
			g.Expect(err).NotTo(HaveOccurred())
			out, err := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^TestMutant$", "-mutant="+s.without).CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), "%s", out)
			_, found, ok := strings.Cut(string(out), "breaks "+s.breaks)
			g.Expect(ok).To(BeTrue(), "%s", out)
			found, _, _ = strings.Cut(found, "\n")
			t.Logf("%s breaks%s", s.breaks, found)
		})
	}
}

// seenByTest builds the tests of one package with the edits, of which the named
// one must fail.
func seenByTest(t *testing.T, files overlay.Files, u unit) {
	g := NewWithT(t)
	dir, err := filepath.Abs(filepath.Join("..", u.dir))
	g.Expect(err).NotTo(HaveOccurred())
	program, err := overlay.Build(t.Context(), t.TempDir(), dir, files)
	g.Expect(err).NotTo(HaveOccurred())
	out, err := exec.CommandContext(t.Context(), program, "-test.run=^"+u.name+"$").CombinedOutput()
	g.Expect(err).To(HaveOccurred(), "%s", out)
	g.Expect(string(out)).To(ContainSubstring("--- FAIL: "+u.name), "%s", out)
}

// TestMutant runs in a program whose sources have the edits of a mutant.
func TestMutant(t *testing.T) {
	if *mutant == "" {
		t.Skip("this is no mutant")
	}
	for _, s := range safeguards() {
		switch {
		case s.without != *mutant:
		case s.finder.explored != nil:
			foundByExploring(t, s)
		case s.finder.played != nil:
			foundByTheWorlds(t, s)
		default:
			foundByTheModel(t, s)
		}
	}
}

func foundByExploring(t *testing.T, s safeguard) {
	o := options()
	o.Budget = long
	r := reconciletest.Search(t, s.finder.explored(), o)
	found, _, _ := strings.Cut(r.Failure, "\n")
	if r.Oracle != "always" || !strings.Contains(found, ": "+s.breaks+": ") {
		t.Fatalf("want %s broken, and the exploration says: %s %q, after %s", s.breaks, r.Oracle, r.Failure, r)
	}
	t.Logf("breaks %s in %d runs: %s", s.breaks, r.Runs, found)
}

// most is how many seeds may be needed to find out.
const most = 400

// A slot must not be released while a grant of its epoch may be on its way. For
// that to go wrong one controller has to be just before its grant, another one
// must not have granted yet, and the group must be paused in between: a step of
// the workload that comes early together with a late call, a pair that an
// exploration does not try. The model does anything at any time.
func foundByTheModel(t *testing.T, s safeguard) {
	steps := 0
	for seed := uint64(1); seed <= most; seed++ {
		r := run(t, s.finder.modelled(seed), seed, s.breaks)
		if steps += r.steps; r.violation != nil {
			t.Logf("breaks %s at seed %d, after %d steps: %s", s.breaks, seed, steps, r.violation.what)
			return
		}
	}
	t.Errorf("%s does not break in %d seeds, %d steps: the safeguard is not needed, or the model is too weak", s.breaks, most, steps)
}

// mostWorlds is how many worlds of the whole operator may be needed to find
// out.
const mostWorlds = 40

// The worlds of the whole operator are biased towards the trouble that the
// safeguard is for. For example, all boot ids stay where a second reboot under
// the same boot id must be prevented.
func foundByTheWorlds(t *testing.T, s safeguard) {
	for seed := uint64(1); seed <= mostWorlds; seed++ {
		switch v := playWhole(t, seed, s.finder.played); {
		case v == nil:
		case v.invariant == s.breaks:
			t.Logf("breaks %s in world %d: %s", s.breaks, seed, v.what)
			return
		default:
			t.Logf("world %d breaks %s instead: %s", seed, v.invariant, v.what)
		}
	}
	t.Errorf("%s does not break in %d worlds: the safeguard is not needed, or the worlds are too mild", s.breaks, mostWorlds)
}
