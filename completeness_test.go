package homeostat_test

import (
	"cmp"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every exported function of a public package, and every type with methods of
// its own, has an Example with output. One of a type stands for its
// constructors, and the other way round. What needs a *testing.T cannot have
// one: its use stands in a test in example_test.go, or in code that a document
// shows.
func TestEveryExportedFunctionHasAnExample(t *testing.T) {
	checked, shownInDocs := 0, codeOfDocuments(t)
	for _, folder := range publicPackages(t) {
		p, inTests := documented(t, folder)
		used := func(name string) bool { return strings.Contains(inTests+shownInDocs, "."+name) }
		if !inKit(folder) {
			used = func(string) bool { return false }
		}
		report := func(name, says string) {
			t.Errorf("%s: %s has no Example with output: write func %s in %[1]s/example_test.go", folder, name, says)
		}
		for _, f := range p.Funcs {
			checked++
			if !runs(f.Examples) && !used(f.Name+"(") {
				report(f.Name, "Example"+f.Name)
			}
		}
		for _, typ := range p.Types {
			examples, methods := slices.Clone(typ.Examples), 0
			for _, m := range typ.Methods {
				examples = append(examples, m.Examples...)
				if m.Level == 0 && !slices.Contains(wellKnown, m.Name) {
					methods++
				}
			}
			shown := runs(examples)
			for _, f := range typ.Funcs {
				checked++
				if !shown && !runs(f.Examples) && !used(f.Name+"(") {
					report(f.Name, "Example"+f.Name)
				}
				shown = shown || runs(f.Examples)
			}
			if methods > 1 && !shown && !used(typ.Name) {
				report(typ.Name, "Example"+typ.Name)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d functions were looked at: the test does not find them", checked)
	}
}

// A contract in a package's comment is a list of promises, each with a test.
func TestEveryContractIsChecked(t *testing.T) {
	heading := regexp.MustCompile(`(?mi)^(# Contract|The contract)\b`)
	checked := 0
	for _, folder := range publicPackages(t) {
		p, _ := documented(t, folder)
		if !heading.MatchString(p.Doc) {
			continue
		}
		checked++
		tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(tests, func(file string) bool { return strings.Contains(read(t, file), "contract.Check(") }) {
			t.Errorf("no test of %s checks its contract: call contract.Check, as the other packages do in contract_test.go", folder)
		}
	}
	if checked < 18 {
		t.Errorf("only %d packages have a contract: the test does not find them", checked)
	}
}

// wellKnown are methods of other packages' interfaces, which those packages call.
var wellKnown = []string{"String", "Error", "Unwrap", "Is", "MarshalText", "Describe", "Collect"}

// publicPackages are the folders that others can import.
func publicPackages(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if slices.Contains([]string{".git", "bin", "dist", "docs", "examples", "internal", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if p, err := build.ImportDir(path, 0); err == nil && !p.IsCommand() && len(p.GoFiles) > 0 {
			all = append(all, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil || len(all) < len(sdk)+len(kit) {
		t.Fatalf("looking for public packages: found %q: %v", all, err)
	}
	return all
}

func inKit(folder string) bool { return strings.HasPrefix(folder, "reconcile/reconciletest") }

// codeOfDocuments is the text of the Go files from which documents take snippets.
func codeOfDocuments(t *testing.T) string {
	t.Helper()
	text := map[string]string{}
	for _, p := range pages(t) {
		for _, s := range p.snippets {
			file, _, _ := strings.Cut(cmp.Or(s.source, p.from), "#")
			if strings.HasSuffix(file, "_test.go") && text[file] == "" {
				text[file] = read(t, file)
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Values(text)), "\n")
}

// documented returns the documentation of a package, and the text of its
// example_test.go files.
func documented(t *testing.T, folder string) (p *doc.Package, inTests string) {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		example := strings.HasSuffix(path, "example_test.go")
		if strings.HasSuffix(path, "_test.go") && !example {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("reading the documentation: %v", err)
		}
		files = append(files, file)
		if example {
			inTests += string(text)
		}
	}
	p, err = doc.NewFromFiles(set, files, module+"/"+folder)
	if err != nil {
		t.Fatalf("reading the documentation of %s: %v", folder, err)
	}
	return p, inTests
}

func runs(examples []*doc.Example) bool {
	return slices.ContainsFunc(examples, func(e *doc.Example) bool { return e.Output != "" })
}
