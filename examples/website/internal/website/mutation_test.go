//go:build mutate

package website_test

import (
	"flag"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/overlay"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// bug is a mistake that is easily made, and that no run without faults shows.
type bug struct {
	name, old, new string
	oracle         string // the rule that it breaks
}

var bugs = []bug{
	{
		name: "no-watch-of-services", old: ", reconcile.Owned(services),", new: ",", oracle: "watch",
	},
	{
		name: "published-by-a-late-cache", oracle: "goal",
		old: "	if err != nil || !ok || live.UID != site.UID {", new: "	if _ = live; err != nil && !ok {",
	},
}

// patience is more than any of them takes on a busy machine: the runs are the
// same ones in the same order.
const patience = 3 * time.Minute

var withBug = flag.String("bug", "", "look for what breaks in the sources as they are, which have this bug")

func TestMutantsAreFound(t *testing.T) {
	if *withBug != "" {
		t.Skip("this is a mutant")
	}
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			g := NewWithT(t)
			files, err := overlay.Apply(".", overlay.Edit{File: "website.go", Old: b.old, New: b.new})
			g.Expect(err).NotTo(HaveOccurred())
			here, err := filepath.Abs(".")
			g.Expect(err).NotTo(HaveOccurred())
			program, err := overlay.Build(t.Context(), t.TempDir(), here, files, "-tags=mutate")
			g.Expect(err).NotTo(HaveOccurred())
			out, err := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^TestMutant$", "-bug="+b.name).CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), "%s", out)
			t.Logf("%s", out)
		})
	}
}

// TestMutant runs in a program whose sources have a bug.
func TestMutant(t *testing.T) {
	for _, b := range bugs {
		if b.name != *withBug {
			continue
		}
		r := reconciletest.Search(t, lifeOfWebsites(t), &reconciletest.Options{Budget: patience})
		NewWithT(t).Expect(r.Oracle).To(Equal(b.oracle), "%s", r.Failure)
		t.Logf("found in %d runs: %s", r.Runs, r.Failure)
		return
	}
	t.Skip("this is no mutant")
}
