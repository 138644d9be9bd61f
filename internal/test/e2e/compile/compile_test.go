package compile_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

// long is more time than a working build needs.
const long = time.Minute

var _ = Describe("ControlPlane", func() {
	var sources, program string

	BeforeEach(func() {
		sources, program = GinkgoT().TempDir(), filepath.Join(GinkgoT().TempDir(), "program")
		write(sources, "go.mod", "module example.com/program\n\ngo 1.26\n")
		write(sources, "main.go", "package main\n\nfunc main() { println(\"it runs\") }\n")
	})

	It("finds the repository from inside of it", func() {
		root, err := compile.ModuleRoot()
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Join(root, "internal", "test", "e2e", "compile", "compile_test.go")).To(BeAnExistingFile())
	})

	It("says so when it runs outside of the repository", func() {
		GinkgoT().Chdir(GinkgoT().TempDir())
		_, err := compile.ControlPlane(GinkgoT().Context(), io.Discard)
		Expect(err).To(MatchError(ContainSubstring("run in the repository")))
	})

	Describe("version", func() {
		BeforeEach(func() {
			write(sources, "go.mod", "module example.com/program\n\ngo 1.26\n\nrequire (\n\tk8s.io/kubernetes v1.36.3\n)\n")
			write(sources, "v1.3.0.mod", "")
			write(sources, "v1.35.4.mod", "")
		})

		DescribeTable("is taken from the environment", func(minor, wantName, wantMod string) {
			name, mod, err := compile.Choose(sources, minor)
			Expect(err).NotTo(HaveOccurred())
			Expect([]string{name, mod}).To(Equal([]string{wantName, wantMod}))
		},
			Entry("none", "", "controlplane", ""),
			Entry("the one of go.mod", "1.36", "controlplane", ""),
			Entry("another one", "1.35", "controlplane-1.35", "v1.35.4.mod"),
			Entry("one whose digits begin another", "1.3", "controlplane-1.3", "v1.3.0.mod"),
		)

		It("is an error if there is no module file for it", func() {
			_, _, err := compile.Choose(sources, "1.20")
			Expect(err).To(MatchError(And(HavePrefix("KUBERNETES is 1.20: "), ContainSubstring(
				"has no module file for this version, only go.mod and v1.3.0.mod, v1.35.4.mod"))))
		})
	})

	Describe("freshness", func() {
		BeforeEach(func() {
			write(filepath.Dir(program), "program", "")
			age(-time.Hour, sources, "go.mod", "main.go")
		})

		DescribeTable("follows the sources", func(change func(), want bool) {
			change()
			Expect(compile.Fresh(sources, program)).To(Equal(want))
		},
			Entry("nothing changed", func() {}, true),
			Entry("no program", func() { Expect(os.Remove(program)).To(Succeed()) }, false),
			Entry("a newer source", func() { age(time.Hour, sources, "main.go") }, false),
			Entry("a newer go.mod", func() { age(time.Hour, sources, "go.mod") }, false),
			Entry("a newer source in a folder", func() {
				Expect(os.Mkdir(filepath.Join(sources, "sub"), 0o755)).To(Succeed())
				write(sources, "sub/sub.go", "package sub\n")
				age(time.Hour, sources, "sub/sub.go")
			}, false),
			Entry("a newer test", func() {
				write(sources, "main_test.go", "package main\n")
				age(time.Hour, sources, "main_test.go")
			}, true),
		)

		It("is an error without sources", func() {
			_, err := compile.Fresh(filepath.Join(sources, "none"), program)
			Expect(err).To(MatchError(ContainSubstring("looking for the sources of")))
		})
	})

	It("fails with the command and the end of its output", func(ctx SpecContext) {
		err := compile.RunBuild(ctx, sources, program, GinkgoWriter)
		Expect(err).To(MatchError(And(
			ContainSubstring("go list in internal/proof/controlplane: exit status 1; the last lines:\n"),
			ContainSubstring("k8s.io/kubernetes"))))
		Expect(program).NotTo(BeAnExistingFile())
	}, SpecTimeout(long))

	It("fails with its context", func(ctx SpecContext) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		Expect(compile.RunBuild(ended, sources, program, GinkgoWriter)).To(MatchError(context.Canceled))
	}, SpecTimeout(long))

	It("makes a program with the version of its module, and says what the compiler says", func(ctx SpecContext) {
		kubernetes := GinkgoT().TempDir()
		write(kubernetes, "go.mod", "module k8s.io/kubernetes\n")
		write(kubernetes, "version.go", "package kubernetes\n")
		write(sources, "go.mod", "module example.com/program\n\ngo 1.26\n\nrequire k8s.io/kubernetes v1.2.3\n\n"+
			"replace k8s.io/kubernetes => "+kubernetes+"\n")
		main := "package main\n\nimport _ \"k8s.io/kubernetes\"\n\nfunc main() "
		write(sources, "main.go", main+"{ println(\"it runs\") }\n")
		progress := gbytes.NewBuffer()
		Expect(compile.RunBuild(ctx, sources, program, progress)).To(Succeed())
		Expect(progress).To(gbytes.Say("the first time takes minutes"))
		Expect(exec.CommandContext(ctx, program).CombinedOutput()).To(BeEquivalentTo("it runs\n"))

		write(sources, "main.go", main+"{ nonsense }\n")
		Expect(compile.RunBuild(ctx, sources, program, progress)).To(MatchError(And(
			ContainSubstring("go build in internal/proof/controlplane"), ContainSubstring("undefined: nonsense"))))
	}, SpecTimeout(long))
})

var _ = Describe("The lock of a build", func() {
	It("makes a second process wait and says so", func(ctx SpecContext) {
		path := filepath.Join(GinkgoT().TempDir(), "lock")
		unlock, err := compile.LockFile(ctx, path, io.Discard)
		Expect(err).NotTo(HaveOccurred())

		progress, waiting := gbytes.NewBuffer(), make(chan error, 1)
		go func() {
			second, err := compile.LockFile(ctx, path, progress)
			if err == nil {
				second()
			}
			waiting <- err
		}()
		Eventually(ctx, progress).Should(gbytes.Say("waiting for another process that builds"))
		Expect(waiting).NotTo(Receive())
		unlock()
		Eventually(ctx, waiting).WithTimeout(long).Should(Receive(BeNil()))
	}, SpecTimeout(long))

	It("waits no longer than its context", func(ctx SpecContext) {
		path := filepath.Join(GinkgoT().TempDir(), "lock")
		unlock, err := compile.LockFile(ctx, path, io.Discard)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(unlock)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = compile.LockFile(ended, path, io.Discard)
		Expect(err).To(MatchError(context.Canceled))
	}, SpecTimeout(long))
})

var _ = Describe("The report of a build", func() {
	It("counts modules, then packages, then links", func() {
		errors := &strings.Builder{}
		r := compile.NewReport(io.Discard, errors)
		say := func(text string) {
			GinkgoHelper()
			_, err := r.Write([]byte(text))
			Expect(err).NotTo(HaveOccurred())
		}
		r.Step("fetching modules")
		Expect(r.Line(0)).To(Equal("building bin/controlplane: fetching modules (0s)"))
		say("go: downloading example.com/a v1.0.0\ngo: downl")
		say("oading example.com/b v1.0.0\n")
		Expect(r.Line(time.Second)).To(Equal("building bin/controlplane: fetching modules, 2 so far (1s)"))
		r.Compile("a", "a/b", "c", "main")
		say("a\na/b\n")
		Expect(r.Line(time.Minute)).To(Equal("building bin/controlplane: compiling, package 2 of 4 (1m0s)"))
		say("# c\nc.go:1:1: syntax error\n")
		say("c\n")
		Expect(r.Line(2 * time.Minute)).To(Equal("building bin/controlplane: linking (2m0s)"))
		Expect(errors.String()).To(Equal("# c\nc.go:1:1: syntax error\n"))
	})
})

func write(dir, name, text string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)).To(Succeed())
}

// age makes files as old as now plus the duration.
func age(d time.Duration, dir string, names ...string) {
	GinkgoHelper()
	at := time.Now().Add(d)
	for _, name := range names {
		Expect(os.Chtimes(filepath.Join(dir, name), at, at)).To(Succeed())
	}
}
