package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kind may be called like anything that the new module or its types mention,
// such as DeepCopy, Status or Server: each one that is accepted compiles, tests
// included.
func TestKindsOfAnyNameCompile(t *testing.T) {
	g := NewWithT(t)
	widget, err := render(named("Widget"), source{Homeostat: "v0.0.0", Replace: checkoutRoot})
	g.Expect(err).NotTo(HaveOccurred())
	kinds := mentioned(widget)
	g.Expect(len(kinds)).To(BeNumerically(">", 150), "the names were not found")
	imports := exportsOf(t, widget)
	faults := map[string]string{}
	for _, kind := range kinds {
		n := named(kind)
		if n.validate() != nil {
			continue
		}
		files, err := render(n, source{Homeostat: "v0.0.0", Replace: checkoutRoot})
		g.Expect(err).NotTo(HaveOccurred(), kind)
		if err := typeCheck(n, files, imports); err != nil {
			faults[kind] = err.Error()
		}
	}
	g.Expect(faults).To(BeEmpty())
}

func named(kind string) parameters {
	return parameters{Group: "example.com", Kind: kind, Version: "v1alpha1"}.withDefaults()
}

// mentioned returns the identifiers in the files, the names of methods and
// fields that every object has, and the names of the functions, as kinds.
func mentioned(files map[string][]byte) []string {
	all := identifiers(files)
	for _, of := range []reflect.Type{reflect.TypeFor[*metav1.ObjectMeta](), reflect.TypeFor[*metav1.ListMeta](), reflect.TypeFor[*metav1.TypeMeta]()} {
		for m := range of.Methods() {
			all[m.Name] = true
		}
		for f := range of.Elem().Fields() {
			all[f.Name] = true
		}
	}
	kinds := map[string]bool{}
	for name := range all {
		for _, name := range []string{name, strings.TrimPrefix(name, "new")} {
			if kind := strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):]; isKind.MatchString(kind) {
				kinds[kind] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

// exportsOf returns an importer of all packages that the Go files import, from
// the caches of the go command.
func exportsOf(t *testing.T, files map[string][]byte) types.Importer {
	t.Helper()
	g := NewWithT(t)
	wanted := map[string]bool{}
	for name, text := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		g.Expect(err).NotTo(HaveOccurred())
		for _, i := range file.Imports {
			if imported := strings.Trim(i.Path.Value, `"`); !strings.HasPrefix(imported, "example.com/") {
				wanted[imported] = true
			}
		}
	}
	list := exec.CommandContext(t.Context(), "go", append([]string{
		"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}",
	}, slices.Sorted(maps.Keys(wanted))...)...)
	list.Dir, list.Stderr = checkoutRoot, t.Output()
	out, err := list.Output()
	g.Expect(err).NotTo(HaveOccurred())
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		imported, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[imported] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(imported string) (io.ReadCloser, error) {
		return os.Open(exports[imported])
	})
}

// withAPI imports the package of the API beside all others.
type withAPI struct {
	types.Importer
	api *types.Package
}

func (w withAPI) Import(imported string) (*types.Package, error) {
	if w.api != nil && imported == w.api.Path() {
		return w.api, nil
	}
	return w.Importer.Import(imported)
}

// typeCheck checks the types of both packages of a new module.
func typeCheck(n parameters, files map[string][]byte, imports types.Importer) error {
	api, err := check(n.Module+"/api/"+n.Version, "api/"+n.Version, files, imports)
	if err == nil {
		_, err = check(n.Module, ".", files, withAPI{imports, api})
	}
	return err
}

func check(imported, folder string, files map[string][]byte, imports types.Importer) (*types.Package, error) {
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".go" || path.Dir(name) != folder {
			continue
		}
		file, err := parser.ParseFile(fset, name, files[name], 0)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	config := types.Config{Importer: imports}
	return config.Check(imported, fset, parsed, nil)
}
