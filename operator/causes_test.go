package operator_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// A person on call has the cause of HomeostatProblem before anything else,
// since it is a label of the alert.
func TestTheRunbookExplainsEachCauseOfAProblem(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile("../docs/operating.md")
	g.Expect(err).NotTo(HaveOccurred())
	_, section, _ := strings.Cut(string(text), "\n### HomeostatProblem\n")
	section, _, _ = strings.Cut(section, "\n### ")
	var heads strings.Builder // the first cells of the table, and the sentence below it
	for line := range strings.Lines(section) {
		if cell, isRow := strings.CutPrefix(line, "| "); isRow {
			line, _, _ = strings.Cut(cell, " |")
		}
		heads.WriteString(line)
	}
	stated := regexp.MustCompile(`\bCause: "([^"]+)"|\b[cC]ause\w+ += "([^"]+)"|\.Cause(?:, p\.\w+)? = "([^"]+)"`)
	found := 0
	for _, pattern := range []string{
		"controllerruntime/*.go", "informer/*.go", "informer/internal/requests/*.go", "operator/*.go", "reconcile/*.go", "status/*.go",
	} {
		files, err := filepath.Glob(filepath.Join("..", pattern))
		g.Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			for _, cause := range stated.FindAllStringSubmatch(string(source), -1) {
				found++
				g.Expect(heads.String()).To(ContainSubstring("`"+strings.Join(cause[1:], "")+"`"), "the cause in %s", file)
			}
		}
	}
	g.Expect(found).To(BeNumerically(">", 20))
}
