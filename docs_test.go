package homeostat_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// page is a document in Markdown.
type page struct {
	path     string
	lines    []string // the lines of the file; lines inside fences are empty in prose
	prose    []string
	snippets []snippet
	from     string // the file whose parts all unmarked Go snippets are
}

// snippet is a fence of a page.
type snippet struct {
	line     int // of its first line of code, from 1
	language string
	source   string // file, or file#parts; empty if it is not marked
	indent   string // of the fence
	code     string
}

var (
	fenceLine  = regexp.MustCompile("^( *)(`{3,})(\\w*)")
	markLine   = regexp.MustCompile(`^ *<!-- from (\S+) -->$`)
	pageSource = regexp.MustCompile(`^<!-- all Go from (\S+) -->$`)
	heading    = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:href|src|srcset)="([^"]+)"`)
)

// Every Go and YAML snippet in the documents, and every other one that is
// marked, is a verbatim part of a file that is compiled or applied by tests.
func TestSnippetsAreTakenFromCodeThatRuns(t *testing.T) {
	sources := map[string]string{}
	marked := 0
	for _, p := range pages(t) {
		for _, s := range p.snippets {
			source := s.source
			if source == "" && s.language == "go" {
				source = p.from
			}
			if source != "" {
				marked++
				if err := checkSnippet(sources, source, s); err != nil {
					t.Errorf("%s:%d: %v", p.path, s.line, err)
				}
			} else if s.language == "go" || s.language == "yaml" || s.language == "" && isGo(s.code) {
				t.Errorf("%s:%d: this snippet comes from nowhere: put <!-- from path/of/file.go#Name --> on the line before its "+
					"fence (Name is a declaration, the body of an Example, or a // region), and run make generate", p.path, s.line)
			}
		}
	}
	if marked < 10 {
		t.Errorf("only %d snippets are marked: the test does not find the documents", marked)
	}
}

// isGo reports whether a snippet without a language is Go, declarations or
// statements, an ellipsis aside.
func isGo(code string) bool {
	code = strings.ReplaceAll(code, "…", "")
	for _, text := range []string{"package p\n" + code, "package p\nfunc f() {\n" + code + "\n}"} {
		file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
		if err == nil && len(file.Decls) > 0 {
			return true
		}
	}
	return false
}

// Every relative link of the documents, and every anchor, leads somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	anchors := map[string][]string{}
	all := pages(t)
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	checked := 0
	for _, p := range all {
		for i, text := range p.prose {
			for _, match := range link.FindAllStringSubmatch(text, -1) {
				target := match[1] + match[2]
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				checked++
				if err := follow(p.path, target, anchors); err != nil {
					t.Errorf("%s:%d: %v", p.path, i+1, err)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d links: the test does not find them", checked)
	}
}

// Commands that the documents tell people to type exist: targets of make, and
// packages that go runs and tests.
func TestCommandsExist(t *testing.T) {
	makefile := read(t, "Makefile") + read(t, "internal/proof/lab.mk")
	command := regexp.MustCompile("(?:^ *|`|&& )(make|go run|go test|go build) ([^`#|]*)")
	inline := regexp.MustCompile("`[^`]+`")
	for _, p := range pages(t) {
		for i, text := range p.lines {
			if p.prose[i] != "" { // not in a fence
				text = strings.Join(inline.FindAllString(text, -1), " ")
			}
			for _, match := range command.FindAllStringSubmatch(text, -1) {
				for word := range strings.FieldsSeq(match[2]) {
					if err := checkWord(makefile, match[1], strings.Trim(word, ".,:;")); err != nil {
						t.Errorf("%s:%d: %v", p.path, i+1, err)
					}
				}
			}
		}
	}
}

// The workflows call targets of make, so that what fails there fails here.
func TestWorkflowsCallCommandsOfTheMakefile(t *testing.T) {
	makefile := read(t, "Makefile") + read(t, "internal/proof/lab.mk")
	workflow := read(t, ".github/workflows/ci.yml") + read(t, ".github/workflows/release.yml")
	steps := regexp.MustCompile(`(?m)^ *- run: (.*)$`).FindAllStringSubmatch(workflow, -1)
	if len(steps) == 0 {
		t.Error("the workflow runs nothing")
	}
	for _, step := range steps {
		target, ok := strings.CutPrefix(strings.TrimPrefix(step[1], "sudo "), "make ")
		if !ok {
			t.Errorf("the workflow runs %q: make it a target of the Makefile, so that everyone can run it", step[1])
		} else if err := checkWord(makefile, "make", target); err != nil {
			t.Errorf("the workflow runs %q: %v", step[1], err)
		}
	}
}

// Metrics that the documents name exist, and docs/operating.md has all of them,
// with their help.
func TestMetricsOfThePagesExist(t *testing.T) {
	helps := helpOfMetrics(t)
	name := regexp.MustCompile(`\b(homeostat|workqueue|controller_runtime|rest_client|leader_election)_[a-z_]+[a-z]\b`)
	named := 0
	for _, p := range pages(t) {
		for i, text := range p.lines {
			for _, metric := range name.FindAllString(text, -1) {
				named++
				if helps[strings.TrimSuffix(metric, "_bucket")] == "" {
					t.Errorf("%s:%d: no file of package metrics has %s", p.path, i+1, metric)
				}
			}
		}
	}
	if named < 10 || len(helps) < 40 {
		t.Errorf("only %d metrics of %d: the test does not find them", named, len(helps))
	}
	page := read(t, "docs/operating.md")
	for metric, help := range helps {
		row := regexp.MustCompile("(?m)^\\| `" + metric + "` \\| `[a-z`, ]+` \\| " + regexp.QuoteMeta(help) + " \\|$")
		if !row.MatchString(page) {
			t.Errorf("docs/operating.md has no row | `%s` | labels | %s |", metric, help)
		}
	}
}

// helpOfMetrics returns the help of each metric, from the calls that make them.
func helpOfMetrics(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("metrics/*.go")
	if err != nil {
		t.Fatal(err)
	}
	helps := map[string]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 1 {
				if name := textOf(call.Args[0]); regexp.MustCompile(`^[a-z]+(_[a-z]+)+$`).MatchString(name) {
					helps[name] = textOf(call.Args[1])
				}
			}
			return true
		})
	}
	return helps
}

// textOf returns the value of a string literal, or of a sum of them.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value) // a number is no text
		return text
	case *ast.BinaryExpr:
		return textOf(e.X) + textOf(e.Y)
	}
	return ""
}

func TestTheREADMEBeginsWithAController(t *testing.T) {
	if before, _, _ := strings.Cut(read(t, "README.md"), "```\n"); strings.Count(before, "\n") > 26 {
		t.Error("the small controller must end before line 26 of README.md")
	}
}

// TestEveryPageIsInTheIndex keeps docs/README.md complete.
func TestEveryPageIsInTheIndex(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, p := range pages(t) {
		name, ok := strings.CutPrefix(p.path, "docs/")
		if ok && !strings.Contains(name, "/") && name != "README.md" && !strings.Contains(index, "]("+name) {
			t.Errorf("%s: no link in docs/README.md leads here: add one, with a few words", p.path)
		}
	}
}

func checkSnippet(sources map[string]string, source string, s snippet) error {
	file, names, named := strings.Cut(source, "#")
	text, ok := sources[file]
	if !ok {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("the snippet is marked as a part of a file that cannot be read: %w", err)
		}
		text = string(content)
		sources[file] = text
	}
	if strings.TrimSpace(s.code) == "" {
		return fmt.Errorf("the snippet is marked as a part of %s and is empty: run make generate", file)
	}
	if !named && !whole(file) {
		if !containsLines(text, s.code) {
			return fmt.Errorf("the snippet is not a part of %s: copy it from there again, or change that first:\n%s", file, s.code)
		}
		return nil
	}
	want, err := excerpt(file, text, names)
	if err != nil {
		return err
	}
	if want != s.code {
		return fmt.Errorf("the snippet is not what stands in %s: change that, and run make generate. It is\n%s\nand should be\n%s",
			source, s.code, want)
	}
	return nil
}

// containsLines reports whether code is a run of whole lines of text, however
// it is indented there.
func containsLines(text, code string) bool {
	lines, part := strings.Split(text, "\n"), strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	for i := range len(lines) - len(part) + 1 {
		if strings.TrimLeft(lines[i], "\t ") != strings.TrimLeft(part[0], "\t ") {
			continue
		}
		if dedent(lines[i:i+len(part)]) == dedent(part) {
			return true
		}
	}
	return false
}

func follow(from, target string, anchors map[string][]string) error {
	path, anchor, _ := strings.Cut(target, "#")
	file := from
	if path != "" {
		file = filepath.Join(filepath.Dir(from), path)
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("the link to %s leads nowhere: %w", target, err)
		}
		if info.IsDir() {
			file = filepath.Join(file, "README.md")
		}
	}
	if anchor == "" || !strings.HasSuffix(file, ".md") {
		return nil
	}
	if !slices.Contains(anchors[file], anchor) {
		return fmt.Errorf("%s has no heading for #%s: it has %s", file, anchor, strings.Join(anchors[file], ", "))
	}
	return nil
}

func checkWord(makefile, command, word string) error {
	switch {
	case command == "make":
		if regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(word) && !strings.Contains(makefile, "\n"+word+":") {
			return fmt.Errorf("the Makefile has no target %s", word)
		}
	case strings.HasPrefix(word, "./"):
		if _, err := os.Stat(strings.TrimSuffix(word, "/...")); err != nil {
			return fmt.Errorf("%s %s: %w", command, word, err)
		}
	}
	return nil
}

// pages returns the documents that people read. It leaves out documents that
// only prove something.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "internal", "testdata", "tmp"}, entry.Name()) {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, ".md") {
			all = append(all, parse(path, read(t, path)))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("looking for documents: %v", err)
	}
	return all
}

func parse(path, text string) page {
	p := page{path: filepath.ToSlash(path), lines: strings.Split(text, "\n")}
	var open string
	for i, line := range p.lines {
		fence := fenceLine.FindStringSubmatch(line)
		switch {
		case open == "" && fence != nil:
			open = fence[2]
			s := snippet{line: i + 2, language: fence[3], indent: fence[1]}
			if i > 0 {
				if mark := markLine.FindStringSubmatch(p.lines[i-1]); mark != nil {
					s.source = mark[1]
				}
			}
			p.snippets = append(p.snippets, s)
		case open != "" && strings.TrimSpace(line) == open:
			open = ""
		case open != "":
			last := &p.snippets[len(p.snippets)-1]
			last.code += strings.TrimPrefix(line, last.indent) + "\n"
		default:
			if mark := pageSource.FindStringSubmatch(line); mark != nil {
				p.from = mark[1]
			}
			p.prose = append(p.prose, line)
			continue
		}
		p.prose = append(p.prose, "")
	}
	return p
}

// anchors returns what GitHub makes of the page's headings.
func (p page) anchors() []string {
	var all []string
	count := map[string]int{}
	for _, line := range p.prose {
		match := heading.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		title := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1")
		slug := regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`).ReplaceAllString(strings.ToLower(title), "")
		slug = strings.ReplaceAll(slug, " ", "-")
		if n := count[slug]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", slug, n))
		} else {
			all = append(all, slug)
		}
		count[slug]++
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Names of tests, and files of the repository, that a document quotes exist. A
// name may be the beginning of several.
func TestQuotedTestsAndFilesExist(t *testing.T) {
	tests, checked := testNames(t), 0
	for _, p := range pages(t) {
		if p.path == "CHANGELOG.md" { // which is about files that were there
			continue
		}
		file, text := p.path, read(t, p.path)
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`).FindAllString(text, -1) {
			checked++
			if !slices.ContainsFunc(tests, func(test string) bool { return strings.HasPrefix(test, name) }) {
				t.Errorf("%s names %s: there is no such test", file, name)
			}
		}
		for _, quoted := range regexp.MustCompile("`([a-z][\\w.-]*(?:/[\\w.-]+)+\\.(?:go|md|sh|yaml|svg))`").FindAllStringSubmatch(text, -1) {
			checked++
			_, atRoot := os.Stat(quoted[1])
			if _, beside := os.Stat(filepath.Join(filepath.Dir(file), quoted[1])); atRoot != nil && beside != nil {
				t.Errorf("%s names %s: there is no such file", file, quoted[1])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d names were looked at: the test does not find them", checked)
	}
}

// testNames returns the names of all tests, fuzz targets and benchmarks.
func testNames(t *testing.T) (all []string) {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, found := range declared.FindAllStringSubmatch(read(t, path), -1) {
			all = append(all, found[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
