package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// versioned is the module whose version the control plane reports as its own.
const versioned = "k8s.io/kubernetes"

// ControlPlane returns the path of bin/controlplane in this repository, after building it if it is missing or older
// than its sources. Other processes that build it at the same time are waited for. At least every ten seconds it
// writes to progress how far it is.
func ControlPlane(ctx context.Context, progress io.Writer) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	b := &build{
		sources: filepath.Join(root, "internal", "proof", "controlplane"),
		program: filepath.Join(root, "bin", "controlplane"),
		report:  &report{out: progress},
	}
	if err := os.MkdirAll(filepath.Dir(b.program), 0o755); err != nil {
		return "", fmt.Errorf("creating the folder of programs: %w", err)
	}
	unlock, err := lockFile(ctx, b.program+".lock", b.report)
	if err != nil {
		return "", err
	}
	defer unlock()
	fresh, err := b.fresh()
	if err != nil || fresh {
		return b.program, err
	}
	return b.program, b.run(ctx)
}

// moduleRoot returns the nearest folder at or above the working directory that has the control plane's module in it.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "internal", "proof", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding internal/proof/controlplane: not in or above %s: run in the repository", start)
		}
	}
}

// A build compiles one program.
type build struct {
	sources string
	program string
	report  *report
}

// fresh reports whether the program exists and no source is newer.
func (b *build) fresh() (bool, error) {
	program, err := os.Stat(b.program)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for %s: %w", b.program, err)
	}
	fresh := true
	err = filepath.WalkDir(b.sources, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !isSource(d.Name()) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fresh = fresh && !info.ModTime().After(program.ModTime())
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("looking for the sources of %s: %w", b.program, err)
	}
	return fresh, nil
}

func isSource(name string) bool {
	if strings.HasSuffix(name, ".go") {
		return !strings.HasSuffix(name, "_test.go")
	}
	return name == "go.mod" || name == "go.sum"
}

func (b *build) run(ctx context.Context) error {
	b.report.say("building bin/controlplane from source; the first time takes minutes")
	stop := b.report.start()
	defer stop()
	version, err := b.output(ctx, "list", "-m", "-f", "{{.Version}}", versioned)
	if err != nil {
		return err
	}
	b.report.step("fetching modules")
	// Paths are not trimmed, so that packages of the standard library that other programs have compiled are reused.
	link := "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + strings.TrimSpace(version)
	stale, err := b.output(ctx, "list", link, "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", ".")
	if err != nil {
		return err
	}
	b.report.compile(strings.Fields(stale))
	if _, err := b.output(ctx, "build", "-v", "-o", b.program, link, "."); err != nil {
		return err
	}
	now := time.Now() // The go command leaves the file alone if nothing changed in it.
	if err := os.Chtimes(b.program, now, now); err != nil {
		return fmt.Errorf("marking bin/controlplane as new: %w", err)
	}
	b.report.say("bin/controlplane is built")
	return nil
}

// output runs the go command in the sources and returns what it writes to its standard output.
func (b *build) output(ctx context.Context, args ...string) (string, error) {
	last := &Tail{}
	b.report.errors = last
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.sources
	// The workspace of a developer must not add to the module; without cgo no C compiler is needed.
	// Compilers that collect no garbage until they have a gibibyte of it take an eighth less.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOGC=off", "GOMEMLIMIT=1GiB")
	// When the context ends, the compilers that the go command has started must not keep us waiting.
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, b.report
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building bin/controlplane: go %s in internal/proof/controlplane: %w; the last lines:\n%s",
			args[0], errors.Join(ctx.Err(), err), last)
	}
	return out.String(), nil
}
