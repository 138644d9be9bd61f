package compile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// versioned is the module whose version the control plane reports as its own.
const versioned = "k8s.io/kubernetes"

// wanted is the environment variable with the minor version of Kubernetes that
// tests run against, such as 1.35. It defaults to the version in go.mod.
const wanted = "KUBERNETES"

// ControlPlane returns the path of bin/controlplane in this repository, after
// building it if it is missing or older than its sources. ControlPlane waits
// for other processes that build the program at the same time. While it waits
// or builds, it reports its progress at least every ten seconds.
//
// If the environment variable KUBERNETES names a minor version other than the
// one in go.mod, the program's name ends in that version. For example,
// KUBERNETES=1.35 selects bin/controlplane-1.35, which is built with
// v1.35.4.mod.
func ControlPlane(ctx context.Context, progress io.Writer) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	b := &build{
		sources: filepath.Join(root, "internal", "proof", "controlplane"),
		report:  &report{progress: progress},
	}
	name, err := b.choose(os.Getenv(wanted))
	if err != nil {
		return "", err
	}
	b.program = filepath.Join(root, "bin", name)
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

// moduleRoot returns the nearest folder, at or above the working directory,
// that contains the control plane's module.
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
	mod     string // the file that replaces go.mod, or empty
	program string
	report  *report
}

// choose sets the module file for a minor version of Kubernetes, and returns
// the name of the program.
func (b *build) choose(minor string) (string, error) {
	const name = "controlplane"
	if minor == "" {
		return name, nil
	}
	standard, err := os.ReadFile(filepath.Join(b.sources, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("looking for the version of the control plane: %w", err)
	}
	if strings.Contains(string(standard), "\t"+versioned+" v"+minor+".") {
		return name, nil
	}
	files, err := filepath.Glob(filepath.Join(b.sources, "v*.mod"))
	if err != nil {
		return "", fmt.Errorf("looking for other versions of the control plane: %w", err)
	}
	var versions []string
	for _, file := range files {
		versions = append(versions, filepath.Base(file))
		if strings.HasPrefix(filepath.Base(file), "v"+minor+".") {
			b.mod = filepath.Base(file)
			return name + "-" + minor, nil
		}
	}
	return "", fmt.Errorf("%s is %s: %s has no module file for this version, only go.mod and %s",
		wanted, minor, b.sources, strings.Join(versions, ", "))
}

// fresh reports whether the program exists and no source file is newer than it.
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
		if err != nil || d.IsDir() || !b.isSource(d.Name()) {
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

func (b *build) isSource(name string) bool {
	if strings.HasSuffix(name, ".go") {
		return !strings.HasSuffix(name, "_test.go")
	}
	mod := cmp.Or(b.mod, "go.mod")
	return name == mod || name == strings.TrimSuffix(mod, "mod")+"sum"
}

func (b *build) run(ctx context.Context) error {
	b.report.say(fmt.Sprintf("building bin/%s from source; the first time takes minutes", filepath.Base(b.program)))
	stop := b.report.start()
	defer stop()
	version, err := b.output(ctx, "list", "-m", "-f", "{{.Version}}", versioned)
	if err != nil {
		return err
	}
	b.report.step("fetching modules")
	// Paths are not trimmed, to reuse packages of the standard library that
	// other programs have compiled.
	link := "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + strings.TrimSpace(version)
	stale, err := b.output(ctx, "list", link, "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", ".")
	if err != nil {
		return err
	}
	b.report.compile(strings.Fields(stale))
	if _, err := b.output(ctx, "build", "-v", "-o", b.program, link, "."); err != nil {
		return err
	}
	modified := time.Now() // The go command does not touch an unchanged file.
	if err := os.Chtimes(b.program, modified, modified); err != nil {
		return fmt.Errorf("marking bin/controlplane as new: %w", err)
	}
	b.report.say(fmt.Sprintf("bin/%s is built", filepath.Base(b.program)))
	return nil
}

// output runs the go command with args in the folder of the sources, and
// returns its standard output.
func (b *build) output(ctx context.Context, args ...string) (string, error) {
	tail := &Tail{}
	b.report.errors = tail
	if b.mod != "" {
		args = slices.Insert(args, 1, "-modfile="+b.mod)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.sources
	// The workspace of a developer must not add to the module; without cgo no C
	// compiler is needed. Compilers take an eighth less time if they collect
	// garbage only above a gibibyte.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOGC=off", "GOMEMLIMIT=1GiB")
	// When the context ends, do not wait for the compilers of the go command.
	cmd.WaitDelay = time.Second
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, b.report
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building bin/controlplane: go %s in internal/proof/controlplane: %w; the last lines:\n%s",
			args[0], errors.Join(ctx.Err(), err), tail)
	}
	return stdout.String(), nil
}
