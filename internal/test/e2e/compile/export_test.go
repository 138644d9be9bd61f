package compile

import (
	"context"
	"io"
	"time"
)

// ModuleRoot is moduleRoot.
func ModuleRoot() (string, error) { return moduleRoot() }

// Fresh is build.fresh.
func Fresh(sources, program string) (bool, error) {
	b := &build{sources: sources, program: program}
	return b.fresh()
}

// Choose is build.choose, and returns the module file, too.
func Choose(sources, minor string) (name, mod string, err error) {
	b := &build{sources: sources}
	name, err = b.choose(minor)
	return name, b.mod, err
}

// RunBuild is build.run.
func RunBuild(ctx context.Context, sources, program string, progress io.Writer) error {
	b := &build{sources: sources, program: program, report: &report{progress: progress}}
	return b.run(ctx)
}

// LockFile is lockFile.
func LockFile(ctx context.Context, path string, progress io.Writer) (func(), error) {
	return lockFile(ctx, path, &report{progress: progress})
}

// A Report is a report of a build that began at the zero time.
type Report struct{ r *report }

// NewReport returns a report that writes progress to out, and everything else
// to errors.
func NewReport(out, errors io.Writer) Report { return Report{&report{progress: out, errors: errors}} }

// Step is report.step.
func (r Report) Step(doing string) { r.r.step(doing) }

// Compile is report.compile.
func (r Report) Compile(packages ...string) { r.r.compile(packages) }

// Line is report.line, so long after the begin.
func (r Report) Line(since time.Duration) string { return r.r.line(r.r.began.Add(since)) }

// Write is report.Write.
func (r Report) Write(p []byte) (int, error) { return r.r.Write(p) }
