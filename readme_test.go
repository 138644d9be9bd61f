package homeostat_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The controller in the README is the body of an Example, which compiles and
// runs.
func TestREADMEShowsCodeThatRuns(t *testing.T) {
	readme, example := read(t, "README.md"), read(t, "reconcile/example_test.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) == 0 {
		t.Fatal("README.md shows no Go code")
	}
	for _, block := range blocks {
		if !strings.Contains(example, block[1]) {
			t.Errorf("this stands in README.md, but not in reconcile/example_test.go:\n%s", block[1])
		}
	}
	if before, _, _ := strings.Cut(readme, "```\n"); strings.Count(before, "\n") > 25 {
		t.Error("the small controller must end before line 25 of README.md")
	}
}

// Every relative link of the documents leads somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	for _, document := range []string{"README.md", "CONTRIBUTING.md"} {
		for _, match := range link.FindAllStringSubmatch(read(t, document), -1) {
			if _, err := os.Stat(match[1]); err != nil {
				t.Errorf("%s links to %s: %v", document, match[1], err)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
