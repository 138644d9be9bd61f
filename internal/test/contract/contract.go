// Package contract ties the promises in a package comment to the tests that
// check them.
//
// Every sentence of every list item in a package's doc.go is a promise. A
// package calls [Check] in its contract_test.go with one test for each
// sentence. Check fails for a promise without a test, and for a test whose
// sentence is no longer in the comment.
package contract

import (
	"fmt"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Tests maps each promise to its test. A promise is a sentence of a list in the
// package comment, without the brackets of doc links and with spaces instead of
// line breaks.
type Tests map[string]func(t *testing.T)

// Check reads doc.go in the directory of the test, and runs the test of each
// promise as a subtest of that name.
func Check(t *testing.T, tests Tests) {
	t.Helper()
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	promises, err := sentences(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range mismatches(promises, tests) {
		t.Error(fault)
	}
	for _, promise := range promises {
		if test := tests[promise]; test != nil {
			t.Run(promise, test)
		}
	}
}

// mismatches describes the promises without a test, and the tests without a
// promise.
func mismatches(promises []string, tests Tests) []string {
	var wrong []string
	for _, promise := range promises {
		if tests[promise] == nil {
			wrong = append(wrong, fmt.Sprintf("doc.go promises %q: no test checks it", promise))
		}
	}
	for _, sentence := range slices.Sorted(maps.Keys(tests)) {
		if !slices.Contains(promises, sentence) {
			wrong = append(wrong, fmt.Sprintf("a test checks %q, but doc.go does not promise it", sentence))
		}
	}
	return wrong
}

// sentences returns the sentences of the list items in the package comment of a
// Go file, in order.
func sentences(source []byte) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", source, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return nil, fmt.Errorf("reading the package comment: %w", err)
	}
	var found []string
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		list, ok := block.(*comment.List)
		if !ok {
			continue
		}
		for _, item := range list.Items {
			for _, content := range item.Content {
				if paragraph, ok := content.(*comment.Paragraph); ok {
					found = append(found, split(plain(paragraph.Text))...)
				}
			}
		}
	}
	return found, nil
}

// link matches a doc link, whose brackets are removed from promises.
var link = regexp.MustCompile(`\[([\w.]+)\]`)

// plain returns text without links and line breaks.
func plain(text []comment.Text) string {
	var b strings.Builder
	for _, part := range text {
		switch part := part.(type) {
		case comment.Plain:
			b.WriteString(string(part))
		case comment.Italic:
			b.WriteString(string(part))
		case *comment.Link:
			b.WriteString(plain(part.Text))
		case *comment.DocLink:
			b.WriteString(plain(part.Text))
		}
	}
	return link.ReplaceAllString(strings.Join(strings.Fields(b.String()), " "), "$1")
}

// split cuts text into sentences, after each full stop that is followed by a
// space and not by a small letter.
func split(text string) []string {
	var found []string
	runes := []rune(text)
	start := 0
	for i, r := range runes {
		isLast := i == len(runes)-1
		if isLast || r == '.' && runes[i+1] == ' ' && i+2 < len(runes) && !unicode.IsLower(runes[i+2]) {
			found = append(found, strings.TrimSpace(string(runes[start:i+1])))
			start = i + 1
		}
	}
	return found
}
