package homeostat_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/homeostat/homeostat"

// sdk is what an example may stand on: the public packages.
var sdk = []string{"queue", "informer", "patch", "names", "leader", "cluster", "reconcile", "metrics", "status"}

// table is the import table of the project: for each folder, which of our
// folders its packages (tests aside) may import. A folder stands for itself and
// all below it; the longest match counts. A package without a row fails.
var table = map[string][]string{
	"queue":                   {"internal"},
	"informer":                {"internal"},
	"patch":                   {"informer", "internal"},
	"names":                   {"internal"},
	"leader":                  {"internal"},
	"cluster":                 {"internal"},
	"reconcile":               {"informer", "queue", "names", "leader/shard", "internal"},
	"reconcile/inspect":       {"informer", "queue", "leader/shard"},
	"reconcile/reconciletest": append([]string{"internal"}, sdk...),
	"metrics":                 {"reconcile", "leader/shard", "queue", "informer", "names", "internal"},
	"status":                  {"reconcile", "queue", "informer", "names", "metrics", "internal"},
	"examples":                sdk,
	"examples/internal/stage": append([]string{"internal/proof/e2e", "internal/apisim", "examples/internal"}, sdk...),
	"examples/reboot/demo":    append([]string{"internal/proof/e2e"}, sdk...),
	"internal":                {},
	"internal/proof/zoo":      append([]string{"internal", "reconcile/reconciletest"}, sdk...),
	"internal/proof/breeding": append([]string{"internal", "reconcile/reconciletest"}, sdk...),
}

// heavy holds the outside modules that only some folders may need.
var heavy = map[string][]string{
	"github.com/prometheus/":          {"metrics", "status", "examples"},
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

type listed struct {
	ImportPath string
	Imports    []string
}

func TestImportTable(t *testing.T) {
	for _, p := range list(t) {
		folder := strings.TrimPrefix(p.ImportPath, module+"/")
		row := rowOf(folder)
		if row == "" {
			t.Errorf("package %s has no row in the import table: add one to arch_test.go", folder)
			continue
		}
		for _, path := range p.Imports {
			checkImport(t, folder, row, path)
		}
	}
}

func checkImport(t *testing.T, folder, row, path string) {
	t.Helper()
	if ours, ok := strings.CutPrefix(path, module+"/"); ok {
		if !within(ours, row) && !slices.ContainsFunc(table[row], func(may string) bool { return within(ours, may) }) {
			t.Errorf("%s imports %s: its row %q allows only %v", folder, ours, row, table[row])
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
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
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
