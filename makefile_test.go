package homeostat_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// go test passes if its -run matches no test. So each alternative of such a
// pattern in a Makefile is the beginning of a test's name.
func TestPatternsOfTheMakefileFindTests(t *testing.T) {
	tests, checked := testNames(t), 0
	makefile := read(t, "Makefile") + read(t, "internal/proof/lab.mk")
	for _, run := range regexp.MustCompile(`-(?:run|fuzz|bench) '([^']*)'`).FindAllStringSubmatch(makefile, -1) {
		for _, name := range alternatives(strings.ReplaceAll(run[1], "$$", "$")) {
			if name == "^$" || strings.Contains(name, "$(") {
				continue // no test, or what the caller asks for
			}
			checked++
			found := regexp.MustCompile(name)
			if !slices.ContainsFunc(tests, found.MatchString) {
				t.Errorf("make runs the tests that match %q in %q: there are none", name, run[1])
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d patterns were looked at: the test does not find them", checked)
	}
}

// alternatives returns the patterns for which a pattern with at most one group
// stands.
func alternatives(pattern string) (all []string) {
	group := regexp.MustCompile(`^(.*?)\(([^()]*)\)(.*)$`).FindStringSubmatch(pattern)
	if group == nil || strings.HasSuffix(group[1], "$") {
		return []string{pattern}
	}
	for name := range strings.SplitSeq(group[2], "|") {
		all = append(all, group[1]+name+group[3])
	}
	return all
}

// make proof explores each module of internal/proof/published.
func TestMakeProofExploresAllPublishedControllers(t *testing.T) {
	match := regexp.MustCompile(`(?m)^PROOF_PARTS = (.*)$`).FindStringSubmatch(read(t, "internal/proof/lab.mk"))
	if match == nil {
		t.Fatal("internal/proof/lab.mk does not set PROOF_PARTS")
	}
	modules, err := filepath.Glob("internal/proof/published/*/go.mod")
	if err != nil || len(modules) < 5 {
		t.Fatalf("looking for the modules: found %q: %v", modules, err)
	}
	for _, file := range modules {
		if name := filepath.Base(filepath.Dir(file)); !slices.Contains(strings.Fields(match[1]), name) {
			t.Errorf("make proof does not explore %s: add it to PROOF_PARTS in internal/proof/lab.mk", name)
		}
	}
}
