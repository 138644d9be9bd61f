package overlay_test

import (
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/overlay"
)

const sample = "../../proof/mutate/testdata/sample/sample.go"

func TestApplyTakesATextThatIsThereOnce(t *testing.T) {
	for name, c := range map[string]struct {
		edit overlay.Edit
		want string
	}{
		"never":   {overlay.Edit{File: sample, Old: "nowhere"}, "0 times, want once"},
		"twice":   {overlay.Edit{File: sample, Old: "return"}, "times, want once"},
		"no file": {overlay.Edit{File: "none.go", Old: "x"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := overlay.Apply(".", c.edit)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.want)))
		})
	}
}

func TestBuildTakesTheEditsAndLeavesTheDisk(t *testing.T) {
	g := NewWithT(t)
	before, err := os.ReadFile(sample)
	g.Expect(err).NotTo(HaveOccurred())
	files, err := overlay.Apply(".", overlay.Edit{File: sample, Old: "t.Total++", New: "t.Total--"},
		overlay.Edit{File: sample, Old: "t.Last = name", New: "t.Last = name + name"})
	g.Expect(err).NotTo(HaveOccurred())
	program, err := overlay.Build(t.Context(), t.TempDir(), "../../proof/mutate/testdata/sample", files)
	g.Expect(err).NotTo(HaveOccurred())
	out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	g.Expect(err).To(HaveOccurred())
	g.Expect(string(out)).To(ContainSubstring("not counted"))
	after, err := os.ReadFile(sample)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after).To(Equal(before))
}

func TestBuildSaysWhatDoesNotCompile(t *testing.T) {
	g := NewWithT(t)
	files, err := overlay.Apply(".", overlay.Edit{File: sample, Old: "t.Total++", New: "t.Totals++"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = overlay.Build(t.Context(), t.TempDir(), "../../proof/mutate/testdata/sample", files)
	g.Expect(err).To(MatchError(overlay.ErrBuild))
	g.Expect(err).To(MatchError(ContainSubstring("Totals undefined")))
}
