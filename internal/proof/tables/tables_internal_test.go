package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const said = `{"Action":"output","Package":"p/zoo","Test":"TestZoo/x/bug","Output":"    zoo_test.go:9: | class | x | state | found, too | 3 | 14 | 0.1 s |\n"}
{"Action":"output","Package":"p/zoo","Test":"TestZoo/z/bug","Output":"    zoo_test.go:9: | another | z | rest | found, too | 1994 | 1 | 0.1 s |\n"}
{"Action":"output","Package":"p/zoo","Test":"TestZoo/y/bug","Output":"    zoo_test.go:9: | class | y | goal | found, too | 3 | 1 | 0.1 s |\n"}
{"Action":"output","Package":"p/zoo","Test":"TestZoo/x/bug_on_Homeostat","Output":"    zoo_test.go:9: | class | x | state | found, too | 8 | 8 | 0.8 s |\n"}
{"Action":"output","Package":"p/zoo","Test":"TestZoo/x/twin","Output":"    zoo_test.go:7: 71 runs: 18 of 18 single deviations (100 %), 0 pairs; without faults: 4 calls, 1 writes, 3 deliveries, in 1s\n"}
{"Action":"output","Package":"p/zoo","Test":"TestZoo/y/twin","Output":"    zoo_test.go:7: 1408 runs: 195 of 195 single deviations (100 %), 3 pairs; without faults: 4 calls, 1 writes, 3 deliveries, in 1s\n"}
{"Action":"attr","Package":"p/examples/website/internal/website","Test":"TestIt","Key":"reconciletest","Value":"1722 runs: 625 of 625 single deviations (100 %), 1044 pairs; without faults: 37 calls, 17 writes, 28 deliveries"}
{"Action":"attr","Package":"p/examples/website/internal/website","Test":"TestIt","Key":"reconciletest-processor","Value":"43.05s"}
{"Action":"attr","Package":"p/examples/reboot/internal/model","Test":"TestExploreFailing","Key":"reconciletest","Value":"437 runs: 240 of 240 single deviations (100 %), 144 pairs; without faults: 24 calls, 6 writes, 12 deliveries"}
{"Action":"attr","Package":"p/examples/reboot/internal/model","Test":"TestExploreFailing","Key":"reconciletest-processor","Value":"6.96s"}
{"Action":"pass","Package":"p/examples/reboot/internal/model"}
`

const (
	old = `<!-- begin of the measured zoo -->
old
<!-- end of the measured zoo -->
between
<!-- begin of the measured examples -->
| example | calls |
|---|--:|
| podlog | 4 |
| website | 1 |
<!-- end of the measured examples -->
<!-- begin of the measured cases -->
| a node fails, and there is no group | 1 |
<!-- end of the measured cases -->
`
	measures = `<!-- begin of the measured zoo -->
| class | bug | found by | on Homeostat | steps | runs | time |
|---|---|---|---|--:|--:|--:|
| class | x | state | found, too | 3 | 14 | 0.1 s |
| class | y | goal | found, too | 3 | 1 | 0.1 s |
| another | z | rest | found, too | 1994 | 1 | 0.1 s |

Measured on 2026-11-23, in processor time, at a load of 3. None of the 1,479 runs of the 2 twins fails: 71 to 1408 for each, with 18 to 195 single faults.
<!-- end of the measured zoo -->
between
<!-- begin of the measured examples -->
| example | calls |
|---|--:|
| podlog | 4 |
| website | 37 | 17 | 28 | 625 | 1,044 | 1,722 | 43 s | 25 ms | 3 | 2026-11-23 |
<!-- end of the measured examples -->
<!-- begin of the measured cases -->
| a node fails, and there is no group | 24 | 6 | 12 | 240 | 144 | 437 | 7.0 s | 16 ms | 3 | 2026-11-23 |
<!-- end of the measured cases -->
`
)

func TestMeasurementsAreWritten(t *testing.T) {
	g := NewWithT(t)
	m, err := read(strings.NewReader(said), func() float64 { return 3.2 })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(m.write(old, "2026-11-23")).To(Equal(measures))
}

func TestIncompleteMeasurementsAreRefused(t *testing.T) {
	for name, row := range map[string]struct{ said, page, want string }{
		"a failure":    {`{"Action":"fail","Package":"p","Test":"TestX"}`, old, "test p TestX failed"},
		"a part":       {strings.Replace(said, "625 of 625", "624 of 625", 1), old, "some single faults were not tried"},
		"no summary":   {strings.Replace(said, "1722 runs: 625 of 625", "done", 1), old, "is not a summary"},
		"no time":      {strings.Replace(said, "43.05s", "0s", 1), old, `"0s" is not a processor time`},
		"no JSON":      {"ok", old, "reading the output of go test -json"},
		"no place":     {said, "", "no comments around the measured zoo"},
		"an unknown":   {strings.ReplaceAll(said, "website", "other"), old, `no row for "other"`},
		"no such page": {said, "none", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			file := filepath.Join(t.TempDir(), "page.md")
			if row.page != "none" {
				g.Expect(os.WriteFile(file, []byte(row.page), 0o600)).To(Succeed())
			}
			g.Expect(run([]string{file}, strings.NewReader(row.said))).To(MatchError(ContainSubstring(row.want)))
		})
	}
	NewWithT(t).Expect(run(nil, nil)).To(MatchError(ContainSubstring("usage: go test -json")))
}

func TestAPageIsWritten(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "page.md")
	g.Expect(os.WriteFile(file, []byte(old), 0o600)).To(Succeed())
	g.Expect(run([]string{file}, strings.NewReader(said))).To(Succeed())
	g.Expect(os.ReadFile(file)).To(ContainSubstring("| website | 37 | 17 |"))
	g.Expect(os.WriteFile(file, []byte("2.75 3 4 1/99 7\n"), 0o600)).To(Succeed())
	g.Expect(loadOf(file)()).To(Equal(2.75))
	g.Expect(loadOf(file + " is not there")()).To(BeZero())
}
