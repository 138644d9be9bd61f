package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/proof/published/results"
)

// found is the output of make proof, as far as the tests here need it.
const found = `{"commit":"abc1234","date":"2026-11-22","go":"1.26.8","platform":"linux/amd64","cores":2,"load":0.5}
{"test":"TestPairJob","module":"kubernetes","version":"v1.36.3","calls":15,"runs":1500,"planned":1217,"tried":1217,"pairs":270,"known":3,"ended":true,"elapsed":9.04,"processor":15}
{"test":"TestPairJob","module":"kubernetes","version":"v1.35.4","runs":27,"planned":199,"tried":25,"ended":true,"elapsed":0.5,"processor":0.8,"oracle":"state","lines":46,"failure":"watch held back:\n    + pods d/web-*3 <there>\n  replay: token\n    1 call\n  hint: wait\n"}
`

const small = `# Page
| Job | {{pair "TestPairJob"}} |

{{findings}}

{{runs}}
{{perRun}}
`

func TestThePageHasWhatWasFound(t *testing.T) {
	g := gomega.NewWithT(t)
	a, err := read([]byte(found), "results.jsonl")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	text, err := a.page(small)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(text)).To(gomega.HaveSuffix("do not edit. -->\n\n" + `# Page
| Job | v1.35.4 | ` + "`state`" + ` | 25 | 0.5 | 0.8 | 46 | v1.36.3 | 1,217 of 1,217, 270 pairs; 3 known; 9.0 s |

<details>
<summary>kubernetes v1.35.4, TestPairJob: <br><code>watch held back:</code><br><code>+ pods d/web-*3 &lt;there&gt;</code></summary>

` + "```text" + `
watch held back:
    + pods d/web-*3 <there>
  replay: token
    1 call
  hint: wait
` + "```" + `

</details>

| 2 | 9s | 15s | abc1234 | 2026-11-22 | 1.26.8 for linux/amd64 | 2 | 0.5 |
10 to 10 ms
`))
}

func TestAControllerIsExploredTwice(t *testing.T) {
	g := gomega.NewWithT(t)
	text := strings.NewReplacer(`TestPairJob","module":"kubernetes","version":"v1.36.3"`,
		`TestJob/ToTheEnd","module":"kubernetes","version":"v1.36.3"`, `TestPairJob`, `TestJob`, `"runs":27`, `"calls":7,"runs":27`,
		`"ended":true,"elapsed":9.04`, `"ended":false,"elapsed":300.2`).Replace(found)
	a, err := read([]byte(text), "results.jsonl")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	page, err := a.page(`{{workload "TestJob"}} {{finding "TestJob"}}{{with findings}}{{end}}`)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(page)).To(gomega.ContainSubstring(
		"v1.35.4 | 7 | 199 | 25 | 0.5 | 1,217 of 1,217, 270 pairs until the budget was used up; 3 known; 300 s <details>"))
}

func TestALongFindingIsFolded(t *testing.T) {
	gomega.NewWithT(t).Expect(details(&results.Result{Failure: "1\n2\n3\n4\n5\n  replay: token"})).To(gomega.And(
		gomega.ContainSubstring("<code>4</code><br>…</summary>"), gomega.ContainSubstring("\n4\n5\n  replay: token\n")))
}

// Errors are reported with their line, and with the way to fix them.
func TestWhatDoesNotFitIsNamed(t *testing.T) {
	lines := strings.SplitAfter(found, "\n")
	for _, c := range []struct{ name, results, source, want string }{
		{"no JSON", lines[0] + "{\"test\"\n", small, "results.jsonl:2: reading a line of JSON: unexpected EOF: run make proof again"},
		{"two values", lines[0] + "{} {}\n", small, "results.jsonl:2: reading a line of JSON: more data after its end: run make proof again"},
		{
			"unknown field", lines[0] + `{"tset":"TestX"}` + "\n", small,
			`results.jsonl:2: reading a line of JSON: json: unknown field "tset": run make proof again`,
		},
		{"no machine", lines[1], small, `results.jsonl:1: reading a line of JSON: json: unknown field "test": run make proof again`},
		{"no commit", "{}\n", small, "results.jsonl:1: the first line does not describe the machine: run make proof again"},
		{"no test", lines[0] + "{}\n", small, "results.jsonl:2: a result lacks its test or its version: run make proof again"},
		{
			"twice", found + lines[1], small,
			"results.jsonl:4: there is a second result of TestPairJob with v1.36.3: run make proof again",
		},
		{
			"missing", lines[0] + lines[1], small,
			"proof.md:2:10: executing \"internal/proof/published/page/proof.md\" at <pair \"TestPairJob\">: error calling pair: results.jsonl has 0 " +
				"results of TestPairJob with a finding, want 1: run make proof, or correct the name",
		},
		{
			"not told apart", strings.Replace(found, `"ended":true,"elapsed":9`, `"failure":"too","ended":true,"elapsed":9`, 1), small,
			"results.jsonl has 2 results of TestPairJob with a finding",
		},
		{
			"not all", strings.Replace(found, `"tried":1217`, `"tried":1000`, 1), small,
			"results.jsonl: TestPairJob tried 1000 of 1217 deviations with v1.36.3: run make proof on a less busy machine",
		},
		{
			"not shown", found, "# Page\n",
			"results.jsonl:2: internal/proof/published/page/proof.md does not show the result of TestPairJob with v1.36.3: give it a row there",
		},
		{
			"no findings", found, `{{pair "TestPairJob"}}`,
			"internal/proof/published/page/proof.md has no {{findings}} after the table with TestPairJob: add it",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			a, err := read([]byte(c.results), "results.jsonl")
			if err == nil {
				_, err = a.page(c.source)
			}
			g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(c.want)))
		})
	}
}

func TestAPageOfOtherResultsIsFound(t *testing.T) {
	g := gomega.NewWithT(t)
	folder := t.TempDir()
	file, page := filepath.Join(folder, "results.jsonl"), filepath.Join(folder, "proof.md")
	kept, err := os.ReadFile("../../../../docs/proof/results.jsonl")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(os.WriteFile(file, kept, 0o600)).To(gomega.Succeed())
	g.Expect(run([]string{"check", file, page})).To(gomega.MatchError(gomega.HaveSuffix("make proof-page")))
	g.Expect(run([]string{"write", file, page})).To(gomega.Succeed())
	g.Expect(run([]string{"check", file, page})).To(gomega.Succeed())
	other := strings.Replace(string(kept), `"date":"20`, `"date":"19`, 1)
	g.Expect(os.WriteFile(file, []byte(other), 0o600)).To(gomega.Succeed())
	g.Expect(run([]string{"check", file, page})).NotTo(gomega.Succeed())
	g.Expect(run([]string{"write"})).To(gomega.MatchError(errUsage))
	g.Expect(run([]string{"write", filepath.Join(folder, "none"), page})).To(gomega.MatchError(gomega.HaveSuffix("to create the file, run make proof")))
}

func TestANewFileOfResultsSaysWhatTheMachineIs(t *testing.T) {
	g := gomega.NewWithT(t)
	file := filepath.Join(t.TempDir(), "results.jsonl")
	g.Expect(run([]string{"begin", file, "abc1234"})).To(gomega.Succeed())
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	a, err := read(text, file)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(a.runs).To(gomega.HaveLen(1))
	g.Expect(a.runs[0].Commit).To(gomega.Equal("abc1234"))
	g.Expect(a.runs[0].Cores).To(gomega.BeNumerically(">", 0))
	g.Expect(a.order).To(gomega.BeEmpty())
}

func TestALaterRunReplacesWhatItRepeats(t *testing.T) {
	g := gomega.NewWithT(t)
	folder := t.TempDir()
	file, later := filepath.Join(folder, "results.jsonl"), filepath.Join(folder, "later.jsonl")
	lines := strings.SplitAfter(found, "\n")
	begin := strings.Replace(lines[0], "abc1234", "def5678", 1)
	again := strings.Replace(lines[1], `"elapsed":9.04`, `"elapsed":7`, 1)
	g.Expect(os.WriteFile(file, []byte(found), 0o600)).To(gomega.Succeed())
	g.Expect(os.WriteFile(later, []byte(begin+again), 0o600)).To(gomega.Succeed())
	g.Expect(run([]string{"merge", file, later})).To(gomega.Succeed())

	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	a, err := read(text, file)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(a.order).To(gomega.HaveLen(2))
	page, err := a.page(small)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(page)).To(gomega.And(gomega.ContainSubstring("3 known; 7.0 s"), gomega.ContainSubstring("state"),
		gomega.ContainSubstring("\n| 1 | 0s | 0s | abc1234 |"), gomega.ContainSubstring("\n| 1 | 7s | 15s | def5678 |")))
}
