package main

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
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
	g.Expect(page).To(gomega.ContainSubstring("## Size\n\n| | unit | homeostat |\n|---|---|--:|\n| Size/smallest | KB | **40,600** |\n"))
	g.Expect(page).NotTo(gomega.ContainSubstring("B/op"), "nothing was allocated")
}

func TestThePictureIsAnSVG(t *testing.T) {
	g := gomega.NewWithT(t)
	r, err := read(strings.NewReader(printed), "results.txt")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	picture := string(r.picture())
	tokens := xml.NewDecoder(strings.NewReader(picture))
	for err == nil {
		_, err = tokens.Token()
	}
	g.Expect(err).To(gomega.MatchError(io.EOF))
	g.Expect(picture).To(gomega.ContainSubstring("queue: Add/workers=4, ns/op"))
	g.Expect(picture).To(gomega.ContainSubstring("<title>client-go: 0.5</title>"))
	g.Expect(picture).NotTo(gomega.ContainSubstring("smallest"), "it has no rival")
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
