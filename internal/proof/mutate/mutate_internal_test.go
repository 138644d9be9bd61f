package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func mutate(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), arguments, &out)
	return out.String(), err
}

func TestMutantsAreKilledAndSurvive(t *testing.T) {
	g := NewWithT(t)
	out, err := mutate(t, "-n", "100", "-timeout", "3s", "-min", "62", "./testdata/sample")
	survivors, table, _ := strings.Cut(out, "seed 1\n")
	g.Expect(strings.SplitAfter(survivors, "\n\n")).To(ConsistOf(
		"testdata/sample/sample.go:21 survives\nin Tally.Add\n- t.Last = name\n+ _ = name\n\n",
		"testdata/sample/sample.go:26 survives\nin Wait\n- for n > 0 {\n+ for n >= 0 {\n\n",
		"testdata/sample/sample.go:26 survives\nin Wait\n- for n > 0 {\n+ for n > 1 {\n\n",
		"",
	))
	g.Expect(table).To(ContainSubstring("| mutate/testdata/sample | 9 | 1 | 8 | 5 | 1 | 62 % |"))
	g.Expect(err).NotTo(HaveOccurred())
}

func TestTooFewKilledIsAnError(t *testing.T) {
	g := NewWithT(t)
	_, err := mutate(t, "-n", "100", "-timeout", "3s", "-min", "63", "./testdata/sample")
	g.Expect(err).To(MatchError(ContainSubstring("want at least 63")))
}

func TestRedWithoutAMutantIsAnError(t *testing.T) {
	g := NewWithT(t)
	_, err := mutate(t, "-n", "1", "./testdata/red")
	g.Expect(err).To(MatchError(And(ContainSubstring("without a mutant"), ContainSubstring("red on purpose"))))
}

func TestNoPackageIsAnError(t *testing.T) {
	_, err := mutate(t)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("specify the packages")))
}

func TestSitesOfEachKind(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want []string // After the mutation, in the order of the source.
	}{
		"negated":             {"if ok() { a() }", []string{"if !(ok()) { a() }", "if ok() { }"}},
		"equal":               {"if x == y { x = y }", []string{"if x != y { x = y }"}},
		"boundary":            {"if x < y { x = y }", []string{"if !(x < y) { x = y }", "if x <= y { x = y }"}},
		"and":                 {"z = v && w", []string{"z = v || w"}},
		"case":                {"switch { case v: x = y }", []string{"switch { case !(v): x = y }"}},
		"no case":             {"switch v { case w: x = y }", nil},
		"else":                {"if x == y { x = y } else { y = x }", []string{"if x == y { x = y }", "if x != y { x = y } else { y = x }"}},
		"call":                {"a(x)", []string{""}},
		"log":                 {`log.Info("x", y); c.log().V(y).Info("x")`, nil},
		"defer":               {"defer a()", []string{""}},
		"continue":            {"for { continue }", []string{"for { }"}},
		"field":               {"s.f = x", []string{"_ = x"}},
		"element":             {"s[x] += y", []string{"s[x] -= y", "_ = y"}},
		"local":               {"x = y; x := y", nil},
		"arithmetic":          {"x = y + z - w", []string{"x = y + z + w", "x = y - z - w"}},
		"text":                {`x = "a" + y`, nil},
		"increment":           {"x++", []string{"x--"}},
		"constants":           {"x, y, z = 0, 1, 2", []string{"x, y, z = 1, 1, 2", "x, y, z = 0, 0, 2"}},
		"result":              {"return x, nil", []string{"return *new(int), nil"}},
		"zero":                {"var none int; return none, nil", nil},
		"no zero any more":    {"var n int; a(&n); return n, nil", []string{"var n int; ; return n, nil", "var n int; a(&n); return *new(int), nil"}},
		"results":             {"return a()", []string{"return *new(int), *new(error)"}},
		"flag":                {"return false, err", []string{"return true, err", "return false, *new(error)"}},
		"of a function in it": {"x = func() bool { return v }", []string{"x = func() bool { return *new(bool) }"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found, err := sitesOf("x.go", []byte("package x\nfunc f() (int, error) {\n"+c.body+"\n}"))
			g.Expect(err).NotTo(HaveOccurred())
			var got []string
			for _, s := range found {
				_, after := s.lines(s.texts[0])
				got = append(got, after)
			}
			g.Expect(got).To(ConsistOf(c.want))
		})
	}
}

func TestSitesAreNamedByContent(t *testing.T) {
	g := NewWithT(t)
	found, err := sitesOf("x.go", []byte("package x\n\nfunc (q *Q[T]) f() {\n\ta()\n\ta()\n}\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(HaveLen(2))
	g.Expect(found[0].key()).To(Equal("in Q.f\n- a()\n+\n"))
	g.Expect(found[1].key()).To(Equal("in Q.f #2\n- a()\n+\n"))
	moved, err := sitesOf("y.go", []byte("package x\nfunc b() { c() }\nfunc (q *Q[T]) f() {\n\ta()\n\ta()\n}\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(moved[1].order(1)).To(Equal(found[0].order(1)))
	g.Expect(moved[1].order(2)).NotTo(Equal(found[0].order(1)))
}

func TestEquivalentsAreKeptHonest(t *testing.T) {
	const mutant = "in f\n- a()\n+\n"
	for name, c := range map[string]struct{ list, want string }{
		"no reason":    {mutant, "an entry must have lines that begin with"},
		"twice":        {mutant + "because x\n\n" + mutant + "because y", "listed twice"},
		"not in there": {"in f\n- b()\n+\nbecause x", "does not exist:\nin f\n- b()"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			trial := &trial{pkg: listed{Dir: t.TempDir(), GoFiles: []string{"x.go"}}}
			g.Expect(os.Mkdir(filepath.Join(trial.pkg.Dir, "testdata"), 0o750)).To(Succeed())
			g.Expect(os.WriteFile(filepath.Join(trial.pkg.Dir, "x.go"), []byte("package x\nfunc f() { a() }"), 0o600)).To(Succeed())
			g.Expect(os.WriteFile(filepath.Join(trial.pkg.Dir, equivalentsFile), []byte(c.list), 0o600)).To(Succeed())
			sites, err := trial.sites()
			g.Expect(err).NotTo(HaveOccurred())
			_, err = trial.withoutEquivalents(sites)
			g.Expect(err).To(MatchError(ContainSubstring(c.want)))
		})
	}
}

func TestEveryListedEquivalentIsInItsPackage(t *testing.T) {
	for _, pattern := range []string{"../../../*/", "../../*/"} {
		files, err := filepath.Glob(pattern + equivalentsFile)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			t.Run(file, func(t *testing.T) {
				g := NewWithT(t)
				of := listed{Dir: filepath.Dir(filepath.Dir(file))}
				sources, err := filepath.Glob(filepath.Join(of.Dir, "*.go"))
				g.Expect(err).NotTo(HaveOccurred())
				for _, source := range sources {
					if !strings.HasSuffix(source, "_test.go") {
						of.GoFiles = append(of.GoFiles, filepath.Base(source))
					}
				}
				trial := &trial{pkg: of}
				sites, err := trial.sites()
				g.Expect(err).NotTo(HaveOccurred())
				_, err = trial.withoutEquivalents(sites)
				g.Expect(err).NotTo(HaveOccurred())
			})
		}
	}
}

// stopAt is a writer that ends a run when it gets a text.
type stopAt struct {
	bytes.Buffer
	text string
	stop func()
}

func (s *stopAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		s.stop()
	}
	return s.Buffer.Write(p)
}

func TestARunThatIsCutShortHasPrintedItsSurvivors(t *testing.T) {
	g := NewWithT(t)
	ctx, stop := context.WithCancel(t.Context())
	out := &stopAt{text: "survives", stop: stop}
	err := run(ctx, []string{"-n", "100", "-j", "1", "-only", "in (Wait|Tally.Add)", "-run", "TestNone", "./testdata/sample"}, out)
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(strings.Count(out.String(), " survives\n")).To(Equal(1))
	g.Expect(out.String()).To(ContainSubstring("/sample | 9 | 1 | 1 | 0 | 0 | 0 % |"), "what was tried is counted")
}

func TestNoMoreMutantsThanAskedFor(t *testing.T) {
	g := NewWithT(t)
	out, err := mutate(t, "-n", "2", "-j", "1", "-timeout", "3s", "./testdata/sample")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(ContainSubstring("/sample | 9 | 1 | 2 |"))
}

func TestOnlyMutantsOfATextAreTried(t *testing.T) {
	g := NewWithT(t)
	out, err := mutate(t, "-n", "100", "-only", "in (Wait|Tally.Add)\n- t.Last", "./testdata/sample")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(And(ContainSubstring("in Tally.Add\n- t.Last = name\n"), ContainSubstring("/sample | 9 | 1 | 1 | 0 |")))
	_, err = mutate(t, "-only", "(", "./testdata/sample")
	g.Expect(err).To(MatchError(HavePrefix("-only: ")))
}

func TestOnlyTheTestsThatAreNamedRun(t *testing.T) {
	g := NewWithT(t)
	out, err := mutate(t, "-only", "in Clamp", "-run", "TestNone", "./testdata/sample")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(MatchRegexp(`/sample \| 9 \| 1 \| [1-9] \| 0 \| 0 \|`), "nothing is killed")
}

func TestCopiesOfEachFormOfFunction(t *testing.T) {
	for name, c := range map[string]struct{ source, head, call string }{
		"no result":    {"func f(x int) { a() }", "func mutant1f(x int) ", "mutant1f(x); return"},
		"result":       {"func f(x, y int) int { a() }", "func mutant1f(x int, y int) int", "return mutant1f(x, y)"},
		"named result": {"func f() (n int, err error) { a() }", "func mutant1f() (n int, err error)", "return mutant1f()"},
		"unnamed": {
			"func f(int, ...string) { a() }", "func mutant1f(mutantParameter0 int, mutantParameter1 ...string) ",
			"mutant1f(mutantParameter0, mutantParameter1...); return",
		},
		"method":  {"func (s *S[_]) F(_ int) { a() }", "func (s *S[_]) mutant1F(mutantParameter0 int) ", "s.mutant1F(mutantParameter0); return"},
		"of type": {"func (S) f() { a() }", "func (mutantOf0 S) mutant1f() ", "mutantOf0.mutant1f(); return"},
		"generic": {"func f[K, V any](m map[K]V) V { a() }", "func mutant1f[K any, V any](m map[K]V) V", "return mutant1f[K, V](m)"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			source := "package x\n\n" + c.source + "\n\nvar after int\n"
			found, err := sitesOf("x.go", []byte(source))
			g.Expect(err).NotTo(HaveOccurred())
			file, copies := joint([]*mutant{{site: found[0], number: 1}})
			original, _, _ := strings.Cut(strings.Replace(c.head, "mutant1", "", 1), "{")
			g.Expect(string(file)).To(Equal("package x\n\n" + original + " { switch mutant { case 1: " + c.call + "; };  a() }\n" +
				"\nvar after int\n\n" + c.head + " {  }\n"))
			g.Expect(copies).To(HaveLen(1))
			g.Expect(copies[0].first).To(Equal(7))
		})
	}
}

func TestATestThatNoticesTheCopiesRunsAlone(t *testing.T) {
	g := NewWithT(t)
	out, err := mutate(t, "-only", "in Twice", "./testdata/alone")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(And(ContainSubstring("tests that run only for mutants that the other tests do not kill: TestAlone\n"),
		ContainSubstring("/alone | 2 | 0 | 2 | 2 | 0 | 100 % |")))
}

func TestSlowTestsRunLast(t *testing.T) {
	g := NewWithT(t)
	const out = "--- PASS: TestA (0.99s)\n--- PASS: TestB (2.00s)\n    --- PASS: TestA/c (5.00s)\n--- PASS: TestC (3.00s)\n"
	quick, late := []string{"-test.skip", "^(TestB|TestC)$"}, []string{"-test.run", "^(TestB|TestC)$"}
	g.Expect(rounds(out)).To(Equal([][]string{quick, late}))
	g.Expect(rounds("--- FAIL: TestA (0.01s)\n")).To(Equal([][]string{{"-test.skip", "^(TestA)$"}}))
	g.Expect(rounds("")).To(Equal([][]string{nil}))
}
