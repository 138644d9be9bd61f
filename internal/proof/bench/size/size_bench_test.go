// Package size_test measures the size of a program: its file, and its memory at
// rest.
package size_test

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

// limit is the most that ingress-per-service may weigh, as a part of its twin.
// The two weigh about the same: it has 1.023 of the twin. It had 1.005 before it
// named certificates, foreign holders of a Lease, wrong scopes and endless lists,
// and 1.020 before it left sick API servers, named proxies, noticed a different
// cluster, and outlived a log that cannot be written.
const limit = 1.025

// most is how many MB that may be where Go's own part is known: on measured. It
// has 47.67: objects that are nested deeply, errors of many keys, references
// and TLS took 0.8 MB, and checks of what servers, webhooks, types, clocks,
// proxies and logs may do 1.0.
const (
	most     = 47.75
	measured = "go1.26 linux/amd64"
)

// programs are the measured programs: the folder and package of each, relative
// to this one.
var programs = []struct{ name, folder, pkg string }{
	{"smallest", ".", "./smallest"},
	{"smallest-with-page", ".", "./page"},
	{"ingress-per-service/impl=homeostat", "../../../..", "./examples/ingress-per-service"},
	{"ingress-per-service/impl=controller-runtime", ".", "./twin"},
}

// build builds one of the programs, unstripped and without the paths of this
// machine, and returns its file.
func build(tb testing.TB, folder, pkg string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "program")
	command := exec.CommandContext(tb.Context(), "go", "build", "-trimpath", "-o", file, pkg)
	command.Dir, command.Env = folder, append(os.Environ(), "GOFLAGS=")
	if out, err := command.CombinedOutput(); err != nil {
		tb.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return file
}

func megabytes(tb testing.TB, file string) float64 {
	tb.Helper()
	info, err := os.Stat(file)
	if err != nil {
		tb.Fatal(err)
	}
	return float64(info.Size()) / 1e6
}

// modules counts those that a program is built from, besides its own.
func modules(tb testing.TB, file string) float64 {
	tb.Helper()
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return float64(len(info.Deps))
}

func BenchmarkSize(b *testing.B) {
	for _, p := range programs {
		b.Run(p.name, func(b *testing.B) {
			file := ""
			for b.Loop() {
				file = build(b, p.folder, p.pkg)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(megabytes(b, file), "MB")
			b.ReportMetric(modules(b, file), "modules")
		})
	}
}

func TestAProgramIsAsLargeAsItsTwin(t *testing.T) {
	ours := megabytes(t, build(t, "../../../..", "./examples/ingress-per-service"))
	twin := megabytes(t, build(t, ".", "./twin"))
	t.Logf("ours %.1f MB, the twin %.1f MB", ours, twin)
	if ours > limit*twin {
		t.Errorf("ingress-per-service has %.1f MB, its twin %.1f: must be at most %v of that", ours, twin, limit)
	}
	version := regexp.MustCompile(`^go\d+\.\d+`).FindString(runtime.Version())
	if version+" "+runtime.GOOS+"/"+runtime.GOARCH == measured && ours > most {
		t.Errorf("ingress-per-service has %.2f MB: must be at most %v", ours, most)
	}
}
