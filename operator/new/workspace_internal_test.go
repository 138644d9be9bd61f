package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// In a repository with a go.work, the go command builds only the modules that
// the file lists.
func TestTheNextStepInAWorkspaceIsToJoinIt(t *testing.T) {
	checkout := root(t)
	f := newFixture(t)
	t.Setenv("GOWORK", "") // the workspace is that of the folder
	other := filepath.Join(f.dir, "other")
	f.Expect(os.Mkdir(other, 0o700)).To(Succeed())
	module := []byte("module example.com/other\n\ngo 1.26.0\n")
	f.Expect(os.WriteFile(filepath.Join(other, "go.mod"), module, 0o600)).To(Succeed())
	file := filepath.Join(f.dir, "go.work")
	f.Expect(os.WriteFile(file, []byte("go 1.26.0\n\nuse ./other\n"), 0o600)).To(Succeed())
	step := "  cd widget-operator\n  go work use .       # adds the module to " + file +
		"; without it, go builds nothing here\n  go test ./..."
	args := []string{"--group=example.com", "--kind=Widget", "--replace=" + checkout}
	f.Expect(f.run(args...)).To(BeZero(), f.stderr.String())
	f.Expect(f.stdout.String()).To(ContainSubstring(step))

	folder := filepath.Join(f.dir, "widget-operator")
	f.Expect(goCommand(t.Context(), folder, "list", "./...").Run()).NotTo(Succeed())
	out, err := goCommand(t.Context(), folder, "work", "use", ".").CombinedOutput()
	f.Expect(err).NotTo(HaveOccurred(), string(out))
	out, err = goCommand(t.Context(), folder, "vet", "./...").CombinedOutput()
	f.Expect(err).NotTo(HaveOccurred(), string(out))

	f.Expect(os.RemoveAll(folder)).To(Succeed())
	f.Expect(f.run(args...)).To(BeZero(), f.stderr.String())
	next := "  cd widget-operator\n  go test ./..."
	f.Expect(f.stdout.String()).To(ContainSubstring(next), "the workspace lists it already")
}
