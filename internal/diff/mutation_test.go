//go:build mutate

package diff_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/overlay"
)

// nullGuards are the lines by which a member that is null equals an omitted
// one. Without any of them, an edit that changes nothing sends a patch in each
// reconcile, such as one of timeAdded or fieldsV1.
var nullGuards = map[string]struct{ old, new string }{
	"of a member on one side": {
		"return noA && noB || noA && c.null(f.node, b) || noB && c.null(f.node, a)", "return noA && noB",
	},
	"of a pointer on one side":     {"return pa == pb || c.null(n, a) && c.null(n, b)", "return pa == pb"},
	"of a type with a MarshalJSON": {`return string(c.opaque(n, p)) == "null"`, "return false"},
	"of equal JSON that one side omits": {
		"f.omitted(a) == f.omitted(b) || c.null(f.node, a)", "f.omitted(a) == f.omitted(b)",
	},
	"behind a pointer": {"return c.null(n.elem, *(*place)(p))", "return false"},
}

func TestMutantsOfTheNullGuardsAreFound(t *testing.T) {
	here, err := filepath.Abs(".")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for without, guard := range nullGuards {
		t.Run(without, func(t *testing.T) {
			g := NewWithT(t)
			files, err := overlay.Apply(".", overlay.Edit{File: "equal.go", Old: guard.old, New: guard.new})
			g.Expect(err).NotTo(HaveOccurred())
			program, err := overlay.Build(t.Context(), t.TempDir(), here, files)
			g.Expect(err).NotTo(HaveOccurred())
			out, err := exec.CommandContext(t.Context(), program, "-test.run=^TestNull").CombinedOutput()
			g.Expect(err).To(HaveOccurred(), "%s", out)
			g.Expect(string(out)).To(ContainSubstring("--- FAIL: TestNull"), "%s", out)
		})
	}
}
