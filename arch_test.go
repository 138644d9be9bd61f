package homeostat_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
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

// sdk is what an example may stand on: the public packages, the users' test kit aside.
var sdk = []string{
	"queue", "informer", "patch", "patch/children", "names", "leader", "leader/shard", "leader/fence", "cluster",
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
	"informer/clientgo": {"informer"},
	"patch":             {"informer", "internal"},
	"patch/children":    {"patch", "informer", "internal"},
	"names":             {"internal"},
	"leader":            {"internal"},
	"leader/shard":      {"leader", "internal"},
	"leader/fence":      {"leader", "internal"},
	// The loop, and the readers of its state.
	"reconcile":         {"informer", "queue", "names", "leader/shard", "reconcile/inspect", "internal"},
	"reconcile/inspect": {"informer", "queue", "leader/shard"},
	"metrics":           {"leader/shard", "names", "queue", "reconcile", "reconcile/inspect", "internal"},
	"status":            {"metrics", "names", "queue", "reconcile", "reconcile/inspect", "internal"},
	// One API server.
	"cluster": {"informer", "internal"},
	// A whole program.
	"operator": {
		"cluster", "leader", "leader/fence", "leader/shard", "metrics", "reconcile", "status", "internal",
	},
	// What writes one. It links none of them.
	"operator/new": {},
	// The test kit.
	"reconcile/reconciletest":        append([]string{"internal"}, sdk...),
	"reconcile/reconciletest/actors": {"reconcile/reconciletest"},
	"reconcile/reconciletest/live":   append([]string{"internal", "reconcile/reconciletest"}, sdk...),
	"reconcile/reconciletest/fakes":  {"reconcile/reconciletest", "internal"},
	// Programs: what users can import, and what only their tests need.
	"examples":                sdk,
	"examples/internal/stage": append([]string{"internal/proof", "internal", "examples"}, sdk...),
	"examples/reboot/demo":    append([]string{"internal/proof", "internal", "examples"}, sdk...),
	// The engine, and what only proves.
	"internal":       {},
	"internal/proof": slices.Concat([]string{"internal"}, kit, sdk),
}

// mostNames is how many lines go doc -short may print for a public package: one
// screen, and what a newcomer can look through.
const mostNames = 15

// moreNames are the packages that may have more.
var moreNames = map[string]int{
	"reconcile": 20,
}

// heavy holds the outside modules that only some folders may need.
var heavy = map[string][]string{
	"github.com/prometheus/":          {"metrics", "status", "operator", "examples"},
	"github.com/spf13/cobra":          {"examples"},
	"k8s.io/cli-runtime/":             {"examples/observe"},
	"github.com/onsi/":                {"examples/internal/stage"},
	"sigs.k8s.io/controller-runtime/": {},
	"testing":                         {"reconcile/reconciletest", "internal", "examples/internal/stage"},
}

// reflecting are packages that call methods by a name that is known only at run
// time. A program that links one keeps every method of every type, which makes
// one that links client-go 16 MB larger.
var reflecting = []string{"text/template", "html/template"}

func TestNoProgramKeepsMethodsThatItDoesNotUse(t *testing.T) {
	arguments := []string{"list", "-deps", "-f", "{{.ImportPath}} {{.Imports}}", "./examples/ingress-per-service"}
	for _, p := range sdk {
		arguments = append(arguments, "./"+p)
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

func TestPublicPackagesFitOnAScreen(t *testing.T) {
	for _, p := range list(t) {
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		if within(folder, "examples") || slices.Contains(strings.Split(folder, "/"), "internal") {
			continue
		}
		out, err := exec.CommandContext(t.Context(), "go", "doc", "-short", p.ImportPath).Output()
		if err != nil {
			t.Fatalf("listing the names of %s: %v", folder, err)
		}
		if n, most := bytes.Count(out, []byte("\n")), max(mostNames, moreNames[folder]); n > most {
			t.Errorf("go doc -short ./%s prints %d names, want at most %d:\n%s", folder, n, most, out)
		}
	}
}

// A type of ours with more is several.
const (
	mostMethods = 25
	mostFields  = 15 // in what ships
)

// manyFields are the structs of what ships that may have more fields, and why.
var manyFields = map[string]string{
	"informer.Status":         "one for each figure that is shown",
	"informer.reflectorStore": "what one list and watch knows, with its context",
	"reconcile.Options":       "one for each thing that users may set",
	"reconciletest.Report":    "one for each figure that is shown",
	"reconciletest.explorer":  "what one exploration knows, by one goroutine",
	"reconciletest.outcome":   "what one run leaves behind, for whoever compares it",
	"status.controllerReport": "a JSON document",
	"status.informerReport":   "a JSON document",
}

func TestNoTypeIsTooLarge(t *testing.T) {
	methods, left := map[string]int{}, maps.Clone(manyFields)
	for _, p := range list(t) {
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		ships := !within(folder, "examples") && !within(folder, "internal/proof")
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Recv != nil {
						methods[folder+"."+nameOf(n.Recv.List[0].Type)]++
					}
				case *ast.TypeSpec:
					name := parsed.Name.Name + "." + n.Name.Name
					if fields := fieldsOf(n); ships && fields > mostFields {
						if manyFields[name] == "" {
							t.Errorf("%s has %d fields, want at most %d", name, fields, mostFields)
						}
						delete(left, name)
					}
				}
				return true
			})
		}
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, want at most %d", name, n, mostMethods)
		}
	}
	for name := range left {
		t.Errorf("%s does not have many fields: take it out of the list", name)
	}
}

// fieldsOf returns how many fields a struct has; 0 of what is none.
func fieldsOf(t *ast.TypeSpec) (n int) {
	if s, ok := t.Type.(*ast.StructType); ok {
		for _, f := range s.Fields.List {
			n += max(1, len(f.Names))
		}
	}
	return n
}

// nameOf returns the name of the type of a receiver.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return nameOf(e.X)
	case *ast.IndexExpr:
		return nameOf(e.X)
	case *ast.IndexListExpr:
		return nameOf(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return fmt.Sprintf("%T", e)
	}
}

// A declaration belongs in the file of its idea, and that beside or below those that use it: names, methods and fields.
func TestFilesOfAPackageUseOneAnotherInNoCircle(t *testing.T) {
	all := slices.DeleteFunc(list(t), func(p listed) bool {
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		return within(folder, "examples") || slices.Contains(strings.Split(folder, "/"), "internal")
	})
	set := token.NewFileSet()
	compiled := importer.ForCompiler(set, "gc", exports(t, all))
	for _, p := range all {
		largest := largestCircle(p.GoFiles, usesOf(t, set, compiled, p))
		if len(largest) > 1 {
			t.Errorf("files of %s use one another in a circle: %v", p.ImportPath, largest)
		}
	}
}

// exports builds packages and all that they import, and returns how to read what each exports.
func exports(t *testing.T, of []listed) importer.Lookup {
	t.Helper()
	arguments := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, p := range of {
		arguments = append(arguments, p.ImportPath)
	}
	out, err := exec.CommandContext(t.Context(), "go", arguments...).Output()
	if err != nil {
		t.Fatalf("building packages: %v", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// usesOf returns which files of a package each of its files uses.
func usesOf(t *testing.T, set *token.FileSet, compiled types.Importer, p listed) map[string]map[string]bool {
	t.Helper()
	var files []*ast.File
	for _, file := range p.GoFiles {
		parsed, err := parser.ParseFile(set, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, parsed)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	checked, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, set, files, info)
	if err != nil {
		t.Fatalf("checking the types of %s: %v", p.ImportPath, err)
	}
	uses := map[string]map[string]bool{}
	for _, file := range p.GoFiles {
		uses[file] = map[string]bool{}
	}
	for at, object := range info.Uses {
		if object.Pkg() == checked {
			from, to := set.Position(at.Pos()).Filename, set.Position(object.Pos()).Filename
			uses[filepath.Base(from)][filepath.Base(to)] = true
		}
	}
	return uses
}

// largestCircle returns most files that reach one another.
func largestCircle(files []string, uses map[string]map[string]bool) (largest []string) {
	reached := map[string]map[string]bool{}
	for _, from := range files {
		reached[from] = map[string]bool{}
		for next := []string{from}; len(next) > 0; next = next[1:] {
			for file := range uses[next[0]] {
				if !reached[from][file] {
					reached[from][file] = true
					next = append(next, file)
				}
			}
		}
	}
	for _, file := range files {
		circle := slices.DeleteFunc(slices.Clone(files), func(other string) bool {
			return other != file && (!reached[file][other] || !reached[other][file])
		})
		if len(circle) > len(largest) {
			largest = circle
		}
	}
	return largest
}

func TestFilesOfTheDesignExist(t *testing.T) {
	const most = 15 // files on the way of a key
	design, err := os.ReadFile("docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range regexp.MustCompile(`\b[a-z][a-z/]*/[a-z_]+\.go`).FindAllString(string(design), -1) {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("docs/design.md names %s: %v", file, err)
		}
	}
	steps := regexp.MustCompile(`(?m)^ ?\d+  .*\.go`).FindAllString(string(design), -1)
	if len(steps) == 0 || len(steps) > most {
		t.Errorf("the way of a key passes %d files, want at most %d", len(steps), most)
	}
}

// The page of the design quotes promises as they stand in the packages, and knows all decisions.
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

func list(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...").Output()
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
