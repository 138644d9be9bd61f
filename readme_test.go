package homeostat_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Go code in the documents stands in tests, which compile and run.
func TestDocumentsShowCodeThatRuns(t *testing.T) {
	for document, source := range map[string]string{
		"README.md":       "reconcile/example_test.go",
		"docs/testing.md": "internal/proof/zoo/newcomer_test.go",
	} {
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, document), -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no Go code", document)
		}
		code := read(t, source)
		for _, block := range blocks {
			if !strings.Contains(code, block[1]) {
				t.Errorf("this stands in %s, but not in %s:\n%s", document, source, block[1])
			}
		}
	}
	if before, _, _ := strings.Cut(read(t, "README.md"), "```\n"); strings.Count(before, "\n") > 25 {
		t.Error("the small controller must end before line 25 of README.md")
	}
}

// Every relative link of the documents leads somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	for _, document := range []string{"README.md", "CONTRIBUTING.md", "docs/testing.md"} {
		prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, document), "")
		for _, match := range link.FindAllStringSubmatch(prose, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), match[1])); err != nil {
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
