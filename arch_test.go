package homeostat_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/homeostat/homeostat"

// sdk is what an example may stand on: the public packages, the users' test kit
// aside.
var sdk = []string{
	"queue", "informer", "patch", "patch/children", "names", "leader", "leader/shard", "leader/shard/ranges", "leader/fence",
	"cluster",
	"reconcile", "reconcile/inspect", "metrics", "status", "operator",
}

// kit is the users' test kit.
var kit = []string{
	"reconcile/reconciletest", "reconcile/reconciletest/actors", "reconcile/reconciletest/live",
	"reconcile/reconciletest/fakes",
}

// table is the import table of the project: for each folder, which other rows'
// packages its own (tests aside) may import. A folder stands for itself and all
// below it; the longest match counts. A package without a row fails.
var table = map[string][]string{
	// The ground: each by itself.
	"queue":             {"internal"},
	"queue/workqueue":   {"queue"},
	"informer":          {"internal"},
	"informer/clientgo": {"informer", "internal"},
	"patch":             {"informer", "internal"},
	"patch/children":    {"patch", "informer", "internal"},
	"names":             {"internal"},
	"leader":            {"internal"},
	"leader/shard":      {"leader", "internal"},
	"leader/fence":      {"leader", "internal"},
	// Ranges see of package shard what its internal packages have.
	"leader/shard/ranges": {"leader", "leader/shard", "internal"},
	// The loop, and the readers of its state.
	"reconcile":         {"informer", "queue", "names", "reconcile/inspect", "internal"},
	"reconcile/inspect": {"informer", "queue", "internal"},
	"metrics":           {"informer", "names", "queue", "reconcile", "reconcile/inspect", "internal"},
	"status":            {"informer", "metrics", "names", "queue", "reconcile", "reconcile/inspect", "internal"},
	// One API server.
	"cluster": {"informer", "internal"},
	// A whole program.
	"operator": {
		"cluster", "leader", "leader/fence", "leader/shard", "metrics", "reconcile", "reconcile/inspect", "status", "internal",
	},
	// What writes one. It links none of them.
	"operator/new": {},
	// What stays on controller-runtime; a module of its own.
	"controllerruntime": {
		"cluster", "informer", "informer/clientgo", "leader", "queue", "queue/workqueue", "reconcile/inspect", "status", "internal",
	},
	"controllerruntime/crpatch": {},
	// The test kit.
	"reconcile/reconciletest":        append([]string{"internal"}, sdk...),
	"reconcile/reconciletest/actors": {"reconcile/reconciletest"},
	"reconcile/reconciletest/live":   append([]string{"internal", "reconcile/reconciletest"}, sdk...),
	"reconcile/reconciletest/fakes":  {"reconcile/reconciletest", "internal"},
	// Programs: what users can import, and what only their tests need.
	"examples":             sdk,
	"examples/interop":     append([]string{"queue/workqueue", "informer/clientgo"}, sdk...),
	"examples/reboot/demo": append([]string{"internal/test", "internal", "examples"}, sdk...),
	// The engine, what tests of several modules need, and the laboratory.
	"internal":       {},
	"internal/test":  slices.Concat([]string{"internal"}, kit, sdk),
	"internal/proof": slices.Concat([]string{"internal", "internal/test", "informer/clientgo"}, kit, sdk),
}

// heavy holds the outside modules that only some folders may need.
var heavy = map[string][]string{
	"github.com/prometheus/":          {"metrics", "status", "operator", "examples"},
	"github.com/spf13/cobra":          {"examples"},
	"k8s.io/cli-runtime/":             {"examples/observe"},
	"github.com/onsi/":                {"internal/test"},
	"sigs.k8s.io/controller-runtime/": {"controllerruntime", "examples/interop", "examples/anyprogram", "internal/proof/bench"},
	"testing":                         {"reconcile/reconciletest", "internal"},
}

// reflecting are packages that call methods by a name that is known only at run
// time. A program that links one keeps every method of every type, which makes
// one that links client-go 16 MB larger.
var reflecting = []string{"text/template", "html/template"}

func TestNoProgramKeepsMethodsThatItDoesNotUse(t *testing.T) {
	arguments := []string{"list", "-deps", "-f", "{{.ImportPath}} {{.Imports}}", "./examples/ingress-per-service"}
	for _, p := range publicPackages(t) {
		if !inKit(p) {
			arguments = append(arguments, "./"+p)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
	if err != nil {
		t.Fatalf("listing dependencies: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		imports := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" []\n", r) })
		for _, path := range reflecting {
			if slices.Contains(imports[1:], path) {
				t.Errorf("%s imports %s: print with package fmt and escape with package html", imports[0], path)
			}
		}
	}
}

func TestFilesOfTheDesignExist(t *testing.T) {
	design, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range regexp.MustCompile(`\b[a-z][a-z/]*/[a-z_]+\.go`).FindAllString(string(design), -1) {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("docs/design.md names %s: %v", file, err)
		}
	}
}

// The page of the design quotes promises as they stand in the packages, and
// knows all decisions.
func TestDesignHasContractsAndDecisions(t *testing.T) {
	design := read(t, "docs/design.md")
	quotes := regexp.MustCompile(`(?m)^\| \[[a-z/]+\]\(\.\./([a-z/]+/doc\.go)\) \| (.*) \|$`).FindAllStringSubmatch(design, -1)
	if len(quotes) < 10 {
		t.Errorf("docs/design.md quotes %d promises: the test does not find them", len(quotes))
	}
	for _, q := range quotes {
		text := strings.Join(strings.Fields(strings.ReplaceAll(read(t, q[1]), "\n//", "\n")), " ")
		if !strings.Contains(text, q[2]) {
			t.Errorf("docs/design.md says of %s what does not stand there: %s", q[1], q[2])
		}
	}
	decisions, err := filepath.Glob("docs/adr/*.md")
	if err != nil || len(decisions) == 0 {
		t.Fatalf("found no decisions: %v", err)
	}
	for _, file := range decisions {
		_, title, _ := strings.Cut(strings.SplitN(read(t, file), "\n", 2)[0], ". ")
		if line := "* [" + title + "](adr/" + filepath.Base(file) + ")\n"; !strings.Contains(design, line) {
			t.Errorf("docs/design.md does not have %s", line)
		}
	}
}

// Each rule has the outage that it prevents, and what holds it here.
func TestEveryRuleHasItsOutage(t *testing.T) {
	rules := strings.Split(read(t, "docs/why-level-driven.md"), "\n## ")[1:]
	if len(rules) < 10 {
		t.Errorf("docs/why-level-driven.md has %d rules: the test does not find them", len(rules))
	}
	for _, rule := range rules {
		name, text, _ := strings.Cut(rule, "\n")
		if name != "What this costs" && (!strings.Contains(text, "](https://github.com/") || !strings.Contains(text, "\n*Here:* ")) {
			t.Errorf("docs/why-level-driven.md: %q lacks a link to what happened without it, or what stands against it here", name)
		}
	}
}

type listed struct {
	ImportPath, Dir  string
	GoFiles, Imports []string
}

func TestImportTable(t *testing.T) {
	unused := maps.Clone(table)
	for _, p := range list(t) {
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		row := rowOf(folder)
		if row == "" {
			t.Errorf("package %s has no row in the import table: add one to arch_test.go", folder)
			continue
		}
		delete(unused, row)
		for _, path := range p.Imports {
			checkImport(t, folder, row, path)
		}
	}
	for row := range unused {
		t.Errorf("row %q of the import table has no package", row)
	}
}

func checkImport(t *testing.T, folder, row, path string) {
	t.Helper()
	if ours, ok := strings.CutPrefix(path, module+"/"); ok {
		if other := rowOf(ours); other != row && !slices.Contains(table[row], other) {
			t.Errorf("%s imports %s: its row %q in arch_test.go allows only %v", folder, ours, row, table[row])
		}
		return
	}
	for prefix, may := range heavy {
		if strings.HasPrefix(path, prefix) && !slices.ContainsFunc(may, func(f string) bool { return within(folder, f) }) {
			t.Errorf("%s imports %s: only %v may", folder, path, may)
		}
	}
}

func rowOf(folder string) string {
	best := ""
	for row := range table {
		if within(folder, row) && len(row) > len(best) {
			best = row
		}
	}
	return best
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// list returns the packages of all modules of the workspace, the root's aside.
func list(t *testing.T) []listed {
	t.Helper()
	arguments := []string{"list", "-json=ImportPath,Dir,GoFiles,Imports"}
	for _, folder := range modules(t) {
		arguments = append(arguments, "./"+folder+"/...")
	}
	out, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("reading go list: %v", err)
		}
		if p.ImportPath != module {
			all = append(all, p)
		}
	}
	if len(all) < 5 {
		t.Fatalf("go list shows only %d packages: run the test at the module's root", len(all))
	}
	return all
}

// modules returns the folders of the workspace's modules.
func modules(t *testing.T) (folders []string) {
	t.Helper()
	for _, use := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(read(t, "go.work"), -1) {
		folders = append(folders, filepath.ToSlash(filepath.Clean(use[1])))
	}
	if len(folders) < 5 {
		t.Fatalf("go.work uses only %q: the test does not find them", folders)
	}
	return folders
}

// door is the one way by which a type shows what only other packages of this
// module need: a method without parameters that returns an interface of an
// internal package.
const door = "Parts"

// TestInternalTypesStandBehindOneDoor: a user cannot name a type of an internal
// package, so none stands in what users see.
func TestInternalTypesStandBehindOneDoor(t *testing.T) {
	doors, public := 0, publicPackages(t)
	for _, p := range list(t) {
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains(public, folder) {
			continue
		}
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			internal := internalImports(parsed)
			for name, seen := range exported(parsed) {
				isDoor := strings.HasSuffix(name, "."+door)
				ast.Inspect(seen, func(n ast.Node) bool {
					if f, ok := n.(*ast.Field); ok && len(f.Names) == 1 && f.Names[0].Name == door {
						doors++ // of an interface
						return false
					}
					of, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					x, ok := of.X.(*ast.Ident)
					switch {
					case !ok || internal[x.Name] == "":
					case isDoor:
						doors++
					default:
						t.Errorf("%s: %s shows %s of %s: show it through %s()", folder, name, of.Sel.Name, internal[x.Name], door)
					}
					return false
				})
			}
		}
	}
	if doors < 3 {
		t.Errorf("found %d doors: the test does not find them", doors)
	}
}

// internalImports returns the internal packages of this module that a file
// imports, by their names in it.
func internalImports(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if !strings.HasPrefix(path, module) || !strings.Contains(path, "/internal/") {
			continue
		}
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = strings.TrimPrefix(path, module+"/")
	}
	return names
}

// exported returns what users see of a file: signatures and types, without what
// is not exported in them.
func exported(file *ast.File) map[string]ast.Node {
	seen := map[string]ast.Node{}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			if ast.IsExported(d.Name.Name) && ast.IsExported(name) {
				seen[name] = d.Type
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if of, ok := spec.(*ast.TypeSpec); ok && of.Name.IsExported() {
					seen[of.Name.Name] = of
				}
			}
		}
	}
	for _, node := range seen {
		ast.Inspect(node, func(n ast.Node) bool {
			if fields, ok := n.(*ast.StructType); ok {
				fields.Fields.List = slices.DeleteFunc(fields.Fields.List, func(f *ast.Field) bool {
					return len(f.Names) > 0 && !slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)
				})
			}
			return true
		})
	}
	return seen
}

func receiver(of ast.Expr) string {
	for {
		switch e := of.(type) {
		case *ast.StarExpr:
			of = e.X
		case *ast.IndexExpr:
			of = e.X
		case *ast.IndexListExpr:
			of = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}
