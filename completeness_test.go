package homeostat_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every exported function of a public package, and every type with methods of its own, has an Example with output. One of
// a type stands for its constructors, and the other way round. What needs a *testing.T cannot have one: its use stands in
// a test in example_test.go, or in the one that docs/testing.md shows.
func TestEveryExportedFunctionHasAnExample(t *testing.T) {
	checked, guide := 0, read(t, "internal/proof/zoo/newcomer_test.go")
	for _, folder := range append(slices.Clone(sdk), kit...) {
		p, inTests := documented(t, folder)
		used := func(name string) bool { return strings.Contains(inTests+guide, "."+name) }
		if !slices.Contains(kit, folder) {
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
				if m.Level == 0 && m.Name != "String" && m.Name != "Error" && m.Name != "Unwrap" && m.Name != "MarshalText" {
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

// documented returns the documentation of a package, and the text of its example_test.go files.
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
