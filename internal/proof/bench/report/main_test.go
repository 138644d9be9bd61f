package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onsi/gomega"
)

const printed = `commit: abc1234
date: 2026-11-22
go: 1.26.8
cores: 2
memory: 24 GiB
goos: linux
goarch: amd64
pkg: github.com/homeostat/homeostat/internal/proof/bench/queue
cpu: AMD EPYC
BenchmarkAdd/workers=4/impl=homeostat-2  	 100	 210.0 ns/op	 0 B/op
BenchmarkAdd/workers=4/impl=homeostat-2  	 100	 190.0 ns/op	 0 B/op
BenchmarkAdd/workers=4/impl=homeostat-2  	 100	 900.0 ns/op	 0 B/op
BenchmarkAdd/workers=4/impl=client-go-2  	 100	 105.0 ns/op	 0 B/op
BenchmarkStarve/impl=homeostat-2  	 1	 5 served
BenchmarkStarve/impl=controller-runtime-2  	 1	 1 served
PASS
pkg: github.com/homeostat/homeostat/internal/proof/bench/size
BenchmarkSize/smallest-2  	 1	 40600 KB
`

func TestThePageHasWhatWasMeasured(t *testing.T) {
	g := gomega.NewWithT(t)
	r, err := read(strings.NewReader(printed), "results.txt")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	page := string(r.page())
	g.Expect(page).To(gomega.ContainSubstring("commit abc1234, on 2026-11-22"))
	g.Expect(page).To(gomega.ContainSubstring("Go 1.26.8, linux/amd64, AMD EPYC, 2 cores, 24 GiB"))
	g.Expect(page).To(gomega.ContainSubstring("| Add/workers=4 | ns/op | **210** | 105 (0.5) | – |\n"), "the median")
	g.Expect(page).To(gomega.ContainSubstring("| Starve | served | **5** | – | 1 (5) |\n"), "more is better")
	g.Expect(page).To(gomega.ContainSubstring("Of 2 comparisons a rival is better in 1, by more than 5 %"))
	g.Expect(page).To(gomega.ContainSubstring("| queue: Add/workers=4 | ns/op | client-go | 2 |\n"))
	g.Expect(page).To(gomega.ContainSubstring("## Size\n\n[What the rows mean](rows.md#size).\n\n| | unit | homeostat |\n|---|---|--:|\n| Size/smallest | KB | **40,600** |\n"))
	g.Expect(page).NotTo(gomega.ContainSubstring("B/op"), "nothing was allocated")
}

// later is a run of one suite at another commit, whose rows are about nothing
// but settings of ours.
const later = `commit: def5678
date: 2026-11-24
load: 39.3
pkg: github.com/homeostat/homeostat/internal/proof/bench/scale
BenchmarkScale/16-replicas/one-is-killed/impl=64-shards 1 13.5 until-all-are-owned-s
BenchmarkScale/16-replicas/one-is-killed/impl=256-shards 1 13.6 until-all-are-owned-s
`

func TestSettingsStandSideBySide(t *testing.T) {
	g := gomega.NewWithT(t)
	r, err := read(strings.NewReader(printed+later), "results.txt")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(r.page())).To(gomega.ContainSubstring("| | unit | 64-shards | 256-shards |\n|---|---|--:|--:|\n" +
		"| Scale/16-replicas/one-is-killed | until-all-are-owned-s | 13.5 | 13.6 |\n"))
}

func TestThePageSaysWhatWasMeasuredApart(t *testing.T) {
	g := gomega.NewWithT(t)
	r, err := read(strings.NewReader(printed+later), "results.txt")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	page := string(r.page())
	g.Expect(page).To(gomega.ContainSubstring("Everything, except sections that say that they were measured apart, is from one " +
		"run of `make bench-report`, of commit abc1234, on 2026-11-22"))
	g.Expect(page).To(gomega.ContainSubstring(
		"## Scale\n\n[What the rows mean](../scaling.md#shards). Measured apart: commit def5678, on 2026-11-24, a load of 39.3 when it began.\n"))
	g.Expect(strings.Count(page, "Measured apart: ")).To(gomega.Equal(1))
}

func TestMeasuringOneSuiteKeepsTheOthers(t *testing.T) {
	g := gomega.NewWithT(t)
	all := []byte(printed + later)
	g.Expect(string(remove(all, "scale"))).To(gomega.Equal(printed + "commit: def5678\ndate: 2026-11-24\nload: 39.3\n"))
	others := string(remove(all, "queue"))
	g.Expect(others).NotTo(gomega.ContainSubstring("BenchmarkAdd"))
	g.Expect(others).To(gomega.HavePrefix("commit: abc1234\n"))
	g.Expect(others).To(gomega.ContainSubstring("BenchmarkSize"))
	g.Expect(others).To(gomega.HaveSuffix(later))

	file := filepath.Join(t.TempDir(), "results.txt")
	g.Expect(os.WriteFile(file, all, 0o600)).To(gomega.Succeed())
	g.Expect(run(t.Context(), []string{"-suite=queues", "run", file}, io.Discard)).
		To(gomega.MatchError(gomega.ContainSubstring(`-suite is "queues"`)))
	g.Expect(os.ReadFile(file)).To(gomega.Equal(all))
}

// of is one kind and one side of the suite replicas.
const of = `pkg: github.com/homeostat/homeostat/internal/proof/bench/replicas
BenchmarkReplicas/kind=pods/impl=first 1 2 start-cpu-s 90 start-received-MiB
BenchmarkReplicas/kind=pods/selects=server/impl=alone 1 1 start-cpu-s 400 resident-MiB 50000 objects 200 writes/s 5000 B/object
BenchmarkReplicas/kind=pods/selects=server/impl=one-of-three-2 1 0.5 start-cpu-s 160 resident-MiB 16667 objects 200 writes/s 5000 B/object
BenchmarkReplicas/kind=pods/selects=server/impl=heaviest 1 0.6 start-cpu-s 168 resident-MiB 17000 objects 200 writes/s 5000 B/object
`

func TestReplicasAreComparedWithOneThatIsAlone(t *testing.T) {
	g := gomega.NewWithT(t)
	r, err := read(strings.NewReader(printed+of), "results.txt")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(r.replicas())).To(gomega.Equal("pods of 5,000 bytes; the server selects\n" +
		"                           alone  one of three  of alone  heaviest  of alone\n" +
		"  start: processor time      1 s         0.5 s      0.50     0.6 s      0.60\n" +
		"        writes a second      200           200      1.00       200      1.00\n" +
		"         then: resident  400 MiB       160 MiB      0.40   168 MiB      0.42\n" +
		"          then: objects   50,000        16,667      0.33    17,000      0.34\n" +
		"\npods: the first replica of all, which chooses the ranges: 2 s of processor time, 90 MiB received\n"))
	g.Expect(string(r.page())).To(gomega.ContainSubstring(
		"| Replicas/kind=pods/selects=server | resident-MiB | – | 400 | 160 | 168 |\n"))
	without, err := read(strings.NewReader(printed), "results.txt")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(string(without.replicas())).To(gomega.Equal("\n"))
}

func TestThePicturesAreSVGs(t *testing.T) {
	g := gomega.NewWithT(t)
	r, err := read(strings.NewReader(printed+later), "results.txt")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for _, picture := range [][]byte{r.picture(), r.bars()} {
		tokens := xml.NewDecoder(bytes.NewReader(picture))
		for err == nil {
			_, err = tokens.Token()
		}
		g.Expect(err).To(gomega.MatchError(io.EOF))
		err = nil
	}
	bars := string(r.bars())
	g.Expect(bars).To(gomega.ContainSubstring(">256-shards</text>"))
	g.Expect(bars).To(gomega.ContainSubstring(">13.6</text>"))
	g.Expect(bars).NotTo(gomega.ContainSubstring("heap"), "it was not measured")
	picture := string(r.picture())
	g.Expect(picture).To(gomega.ContainSubstring("queue: Add/workers=4, ns/op"))
	g.Expect(picture).To(gomega.ContainSubstring("<title>client-go: 0.5</title>"))
	g.Expect(picture).NotTo(gomega.ContainSubstring("smallest"), "it has no rival")
}

// docs/benchmarks/rows.md has the command for each suite that make bench-report
// runs.
func TestThePageHasTheCommandOfEachSuite(t *testing.T) {
	g := gomega.NewWithT(t)
	page, err := os.ReadFile("../../../../docs/benchmarks/rows.md")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for _, s := range suites {
		g.Expect(string(page)).To(gomega.MatchRegexp(`(?m)^    `+regexp.QuoteMeta(commandOf(&s))+`( -|$)`), s.pkg)
	}
}

// commandOf returns the command that runs a suite once, without flags that only
// the report needs.
func commandOf(s *suite) string {
	if s.program != "" {
		return "go run ./" + s.pkg + "/" + s.program
	}
	tags := ""
	if s.tags != "" {
		tags = "-tags " + s.tags + " "
	}
	if s.test != "" {
		return fmt.Sprintf("go test %s./%s -run '^%s$'", tags, s.pkg, s.test)
	}
	return fmt.Sprintf("go test %s./%s -run '^$' -bench '%s' -benchtime %s", tags, s.pkg, s.benchmarks, s.time)
}

func TestCostsAreMultiplied(t *testing.T) {
	g := gomega.NewWithT(t)
	r, err := read(strings.NewReader("pkg: cache\n"+
		"BenchmarkSync/pods=100000/impl=homeostat-2 1 9 s 6000 heap-B/Pod\n"+
		"BenchmarkEvents/pods=100000/impl=homeostat-2 1 40 cpu-µs/event\n"), "results.txt")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(strings.Fields(string(r.grown()))).To(gomega.Equal(strings.Fields(`
		objects 50,000 500,000 5,000,000
		events a second 300 3,000 30,000
		memory of caches, of full Pods, GB 0.3 3 30
		the first list, s 4.5 45 450
		events, processor time of a core, % 1.2 12 120`)))
}

func TestAPageOfOtherResultsIsFound(t *testing.T) {
	g := gomega.NewWithT(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "results.txt")
	g.Expect(os.WriteFile(file, []byte(printed), 0o600)).To(gomega.Succeed())
	g.Expect(run(t.Context(), []string{"check", file, folder}, io.Discard)).To(gomega.MatchError(gomega.ContainSubstring("make bench-page")))
	g.Expect(run(t.Context(), []string{"write", file, folder}, io.Discard)).To(gomega.Succeed())
	g.Expect(run(t.Context(), []string{"check", file, folder}, io.Discard)).To(gomega.Succeed())
	g.Expect(os.WriteFile(file, []byte(strings.Replace(printed, "105.0", "106.0", 1)), 0o600)).To(gomega.Succeed())
	g.Expect(run(t.Context(), []string{"check", file, folder}, io.Discard)).NotTo(gomega.Succeed())
	g.Expect(run(t.Context(), []string{"write"}, io.Discard)).To(gomega.MatchError(errUsage))
	g.Expect(os.WriteFile(file, []byte("BenchmarkX-2 1 nonsense ns/op\n"), 0o600)).To(gomega.Succeed())
	g.Expect(run(t.Context(), []string{"write", file, folder}, io.Discard)).To(gomega.MatchError(gomega.ContainSubstring("results.txt:1")))
}
