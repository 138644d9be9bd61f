package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// The limits for a whole operator, in lines without blanks and comments. The
// same one on controller-runtime took 286, its main 60.
const (
	mostLines  = 229
	mostMain   = 25
	mostClient = 5
)

func TestTheOperatorIsShort(t *testing.T) {
	g := NewWithT(t)
	var all []string
	for _, pattern := range []string{"*.go", "*/*.go", "*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		g.Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			name := filepath.Base(file)
			if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "zz_generated") {
				all = append(all, file)
			}
		}
	}
	g.Expect(all).To(ConsistOf("main.go", "api/v1/website.go", "internal/website/website.go"))
	total := 0
	for _, file := range all {
		total += len(code(t, file))
	}
	g.Expect(total).To(BeNumerically("<=", mostLines))
	g.Expect(len(code(t, "main.go"))).To(BeNumerically("<=", mostMain))

	lines := strings.Join(code(t, "internal/website/website.go"), "\n")
	_, client, ok := strings.Cut(lines, "websites, err := cluster.NewKind")
	g.Expect(ok).To(BeTrue())
	client, _, ok = strings.Cut(client, "env.Options())") // and makes the controller
	g.Expect(ok).To(BeTrue())
	g.Expect(strings.Count(client, "\n")).To(BeNumerically("<=", mostClient), client)
}

// code returns the lines of a file without blanks and comments.
func code(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines = append(lines, line)
		}
	}
	return lines
}
