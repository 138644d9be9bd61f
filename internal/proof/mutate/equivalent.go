package main

import (
	"fmt"
	"strings"
)

// equivalentsFile lists the mutants of a package that no test can find, each
// with the reason. An entry has the form in which survivors are printed, the
// three lines of a site's key, followed by a paragraph that begins with
// "because".
const equivalentsFile = "testdata/equivalent.txt"

// equivalents returns the reasons in the text of an equivalentsFile, by the
// keys of the mutants. A paragraph that begins with # is a comment.
func equivalents(source string) (map[string]string, error) {
	known := map[string]string{}
	for block := range strings.SplitSeq(strings.TrimSpace(source), "\n\n") {
		if strings.HasPrefix(block, "#") {
			continue
		}
		lines := strings.SplitAfterN(strings.TrimSpace(block), "\n", 4)
		if len(lines) != 4 || !strings.HasPrefix(lines[0], "in ") || !strings.HasPrefix(lines[1], "- ") ||
			!strings.HasPrefix(lines[2], "+") || !strings.HasPrefix(lines[3], "because ") {
			return nil, fmt.Errorf("an entry must have lines that begin with in, -, + and because, got:\n%s", block)
		}
		key := strings.Join(lines[:3], "")
		if known[key] != "" {
			return nil, fmt.Errorf("a mutant is listed twice:\n%s", key)
		}
		known[key] = lines[3]
	}
	return known, nil
}
