package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const checkoutRoot = "../.."

// fixture is an empty folder in which the program runs.
type fixture struct {
	*WithT
	t      *testing.T
	dir    string
	info   *debug.BuildInfo
	stdout bytes.Buffer
	stderr bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{WithT: NewWithT(t), t: t, dir: t.TempDir(), info: &debug.BuildInfo{Main: debug.Module{Path: scaffold}}}
	t.Chdir(f.dir)
	return f
}

// run returns the exit code.
func (f *fixture) run(args ...string) int {
	f.t.Helper()
	f.stdout.Reset()
	f.stderr.Reset()
	return run(f.t.Context(), f.info, args, &f.stdout, &f.stderr)
}

// has are the files and folders that there are, but not what is in them.
func (f *fixture) has() []string {
	f.t.Helper()
	entries, err := os.ReadDir(f.dir)
	f.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// root is the absolute path of this checkout.
func root(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(checkoutRoot)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return path
}

// Building and testing it is for the e2e test: go vet compiles all of it, tests
// included.
func TestTheNewModuleCompiles(t *testing.T) {
	checkout := root(t)
	for _, more := range []string{"", "--cluster-scoped --secret", "--secret"} {
		t.Run(more, func(t *testing.T) {
			f := newFixture(t)
			args := append([]string{"--group=example.com", "--kind=Widget", "--replace=" + checkout}, strings.Fields(more)...)
			f.Expect(f.run(args...)).To(BeZero(), f.stderr.String())
			f.Expect(f.stdout.String()).To(ContainSubstring("cd widget-operator\n"))
			f.Expect(f.has()).To(Equal([]string{"widget-operator"}))
			vet := exec.CommandContext(t.Context(), "go", "vet", "./...")
			vet.Dir = filepath.Join(f.dir, "widget-operator")
			vet.Env = append(vet.Environ(), "GOWORK=off")
			out, err := vet.CombinedOutput()
			f.Expect(err).NotTo(HaveOccurred(), string(out))
		})
	}
}

// Roles that are bound in a namespace give nothing for a kind without any.
func TestAClusterScopedKindHasNoNamespaceAnywhere(t *testing.T) {
	g := NewWithT(t)
	wide, narrow := named("Widget"), named("Widget")
	wide.ClusterScoped = true
	for _, n := range []parameters{wide, narrow} {
		files, err := render(n, source{Homeostat: "v0.0.0", Replace: checkoutRoot})
		g.Expect(err).NotTo(HaveOccurred())
		has := func(file, text string) bool { return strings.Contains(string(files[file]), text) }
		g.Expect(has("config/crd/example.com_widgets.yaml", "scope: Cluster")).To(Equal(n.ClusterScoped))
		g.Expect(has("api/v1alpha1/widget_types.go", "scope=Cluster")).To(Equal(n.ClusterScoped))
		g.Expect(has("config/sample.yaml", "namespace:")).NotTo(Equal(n.ClusterScoped))
		g.Expect(has("config/users.yaml", "aggregate-to-edit")).NotTo(Equal(n.ClusterScoped))
		g.Expect(has("controller.go", "kind.ClusterScoped()")).To(Equal(n.ClusterScoped))
	}
}

// The operator asks for no right to all Secrets, neither of the cluster nor of
// a namespace.
func TestSecretsAreReadByTheirNamesIfTheKindHasThem(t *testing.T) {
	g := NewWithT(t)
	with, without := named("Widget"), named("Widget")
	with.Secret = true
	for _, n := range []parameters{with, without} {
		files, err := render(n, source{Homeostat: "v0.0.0", Replace: checkoutRoot})
		g.Expect(err).NotTo(HaveOccurred())
		has := func(file, text string) bool { return strings.Contains(string(files[file]), text) }
		g.Expect(has("secret.go", "return []reconcile.Key{{Namespace: widget.Namespace, Name: widget.Spec.SecretName}}")).
			To(Equal(n.Secret))
		g.Expect(has("controller.go", "reconcile.References(r.secrets, secretOf)")).To(Equal(n.Secret))
		g.Expect(has("main.go", `"list,watch secrets by name"`)).To(Equal(n.Secret))
		g.Expect(has("config/sample.yaml", "resources: [secrets]\n    resourceNames: [sample]\n    verbs: [list, watch]\n")).
			To(Equal(n.Secret))
		g.Expect(has("config/crd/example.com_widgets.yaml", "secretName:")).To(Equal(n.Secret))
		g.Expect(has("config/role.yaml", "secrets")).To(BeFalse())
		g.Expect(len(files)).To(BeNumerically("<", 30), "a newcomer looks through them")
	}
}

func TestWrongCommandLinesWriteNothing(t *testing.T) {
	checkout := root(t)
	for _, c := range []struct {
		args string
		says string
	}{
		{"", "--group is missing: must be a domain that you own, such as example.com\n--kind is missing"},
		{"--group=apps --kind=Widget", `--group is "apps": must be a domain with a dot, such as apps.example.com`},
		{"--group=Example.com --kind=Widget", `--group is "Example.com": a lowercase RFC 1123 subdomain`},
		{"--group=x.k8s.io --kind=Widget", `--group is "x.k8s.io": servers refuse`},
		{"--group=example.com --kind=widget", `--kind is "widget": must be a singular noun in CamelCase, such as Widget`},
		{"--group=example.com --kind=My-Widget", `--kind is "My-Widget": must be a singular noun in CamelCase`},
		{"--group=example.com --kind=AddToScheme", `--kind is "AddToScheme": the kind's Go package already uses that name`},
		{"--group=example.com --kind=ListOptions", `--kind is "ListOptions": Kubernetes itself has a kind of that name`},
		{"--group=example.com --kind=List", `--kind is "List": Kubernetes itself has`},
		{"--group=example.com --kind=WatchEvent", `--kind is "WatchEvent": Kubernetes itself has`},
		{"--group=example.com --kind=A" + strings.Repeat("b", 54), "must have at most 54 characters"},
		{"--group=example.com --kind=Widget --version=1", `--version is "1": must be a Kubernetes API version`},
		{"--group=example.com --kind=Widget --plural=Widgets", `--plural is "Widgets": a DNS-1035 label`},
		{"--group=" + strings.Repeat("a.", 125) + "io --kind=Widget", "--plural and --group are too long"},
		{"--group=" + strings.Repeat("a.", 120) + "com --kind=Widget", "--plural and --group are too long"},
		{"--group=example.com --kind=Widget --module=k8s.io/api", `--module is "k8s.io/api": the new module requires`},
		{"--group=example.com --kind=Widget --module=../x", `--module: malformed module path "../x"`},
		{"--group=example.com --kind=Widget extra", `unexpected argument "extra"`},
		{"--group=example.com --kind=Widget --colour=red", "flag provided but not defined: -colour"},
	} {
		t.Run(c.args, func(t *testing.T) {
			f := newFixture(t)
			f.Expect(f.run(append(strings.Fields(c.args), "--replace="+checkout)...)).To(Equal(exitUsage))
			f.Expect(f.stderr.String()).To(ContainSubstring(c.says))
			f.Expect(f.has()).To(BeEmpty())
		})
	}
}

func TestTheVersionEqualsTheVersionOfTheProgram(t *testing.T) {
	g := NewWithT(t)
	released := debug.Module{Path: scaffold, Version: "v1.2.3"}
	for _, info := range []*debug.BuildInfo{
		{Main: released},
		{Main: debug.Module{Path: "example.com/user"}, Deps: []*debug.Module{{Path: "example.com/other"}, &released}},
	} {
		g.Expect(sourceOf(info, "")).To(Equal(source{Homeostat: "v1.2.3"}))
	}
	checkout := source{Homeostat: "v0.0.0", Replace: root(t)}
	g.Expect(sourceOf(&debug.BuildInfo{Main: released}, checkoutRoot)).To(Equal(checkout))
	replaced := released
	replaced.Replace = &debug.Module{Path: "."}
	g.Expect(sourceOf(&debug.BuildInfo{Deps: []*debug.Module{&replaced}}, "")).To(Equal(checkout))

	for _, version := range []string{"", "(devel)", "v0.0.0-20260101000000-0123456789ab+dirty"} {
		_, err := sourceOf(&debug.BuildInfo{Main: debug.Module{Path: scaffold, Version: version}}, "")
		g.Expect(err).To(MatchError(ContainSubstring("built from a checkout")), version)
	}
	_, err := sourceOf(nil, "")
	g.Expect(err).To(MatchError(ContainSubstring("--replace ../homeostat")))
	forked := released
	forked.Replace = &debug.Module{Path: "example.com/fork", Version: "v1.0.0"}
	_, err = sourceOf(&debug.BuildInfo{Deps: []*debug.Module{&forked}}, "")
	g.Expect(err).To(MatchError(ContainSubstring("example.com/fork v1.0.0 in place of " + scaffold)))
	_, err = sourceOf(nil, t.TempDir())
	g.Expect(err).To(MatchError(ContainSubstring("must be the folder of a checkout of Homeostat")))
	for folder, module := range map[string]string{"../../examples": homeostat + "/examples", ".": scaffold} {
		_, err = sourceOf(nil, folder)
		g.Expect(err).To(MatchError(ContainSubstring("not of %q", module)))
	}
}

func TestAFolderWithContentIsRefused(t *testing.T) {
	checkout := root(t)
	f := newFixture(t)
	f.Expect(os.Mkdir("widget-operator", 0o755)).To(Succeed())
	f.Expect(os.WriteFile("widget-operator/mine", nil, 0o644)).To(Succeed())
	f.Expect(f.run("--group=example.com", "--kind=Widget", "--replace="+checkout)).To(Equal(exitError))
	f.Expect(f.stderr.String()).To(ContainSubstring("widget-operator is not empty (it contains mine): choose a new folder with --dir"))
	entries, err := os.ReadDir("widget-operator")
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(entries).To(HaveLen(1))
}

func TestAllIsWrittenOrNothing(t *testing.T) {
	files := map[string][]byte{"a": []byte("1"), "b/c": []byte("2"), ".d": nil}
	broken := errors.New("broken")
	for name, exists := range map[string]bool{"new folder": false, "empty folder": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if exists {
				f.Expect(os.Mkdir("x", 0o755)).To(Succeed())
			}
			before := f.has()
			f.Expect(write("x", files, func(folder string) error {
				f.Expect(filepath.Join(folder, "b", "c")).To(BeAnExistingFile())
				return broken
			})).To(MatchError(broken))
			f.Expect(f.has()).To(Equal(before))
			if exists {
				f.Expect(os.ReadDir("x")).To(BeEmpty())
			}

			f.Expect(write("x", files, func(string) error { return nil })).To(Succeed())
			f.Expect(f.has()).To(Equal([]string{"x"}))
			f.Expect(all(t, "x")).To(Equal([]string{".d", "a", "b/c"}))
			info, err := os.Stat("x")
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(info.Mode().Perm()).To(Equal(fs.FileMode(0o755)))
		})
	}
	t.Run("without the go command", func(t *testing.T) {
		checkout := root(t)
		f := newFixture(t)
		t.Setenv("PATH", "")
		f.Expect(f.run("--group=example.com", "--kind=Widget", "--replace="+checkout)).To(Equal(exitError))
		f.Expect(f.stderr.String()).To(ContainSubstring("running go mod tidy (the new module was discarded)"))
		f.Expect(f.has()).To(BeEmpty())
	})
}

// all are the files below a folder.
func all(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, path)
		}
		return err
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return names
}

// What is written more than once is everywhere the same.
func TestVersionsAgree(t *testing.T) {
	g := NewWithT(t)
	files, err := render(parameters{Group: "example.com", Version: "v1", Kind: "Widget"}.withDefaults(), source{Homeostat: "v1.2.3"})
	g.Expect(err).NotTo(HaveOccurred())
	ours, err := os.ReadFile("../../go.mod")
	g.Expect(err).NotTo(HaveOccurred())
	find := func(pattern string, text []byte) string {
		match := regexp.MustCompile(pattern).FindSubmatch(text)
		g.Expect(match).NotTo(BeNil(), pattern)
		return string(match[1])
	}
	g.Expect(find(`(?m)^go (\S+)$`, files["go.mod"])).To(Equal(find(`(?m)^go (\S+)$`, ours)))
	g.Expect(find(`golang:(\S+)`, files["Dockerfile"]) + ".0").To(Equal(find(`(?m)^go (\S+)$`, ours)))
	g.Expect(find(`controller-tools (\S+)`, files["go.mod"])).
		To(Equal(find(`controller-gen.kubebuilder.io/version: (\S+)`, files["config/crd/example.com_widgets.yaml"])))
	tools, err := os.ReadFile("../../internal/proof/tools/go.mod")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(find(`golangci-lint@(\S+)`, files["Makefile"])).To(Equal(find(`golangci-lint/v2 (\S+)`, tools)))
	workflow, err := os.ReadFile("../../.github/workflows/ci.yml")
	g.Expect(err).NotTo(HaveOccurred())
	for _, action := range []string{"checkout", "setup-go"} {
		used := action + `@(\S+)`
		g.Expect(find(used, files[".github/workflows/test.yaml"])).To(Equal(find(used, workflow)))
	}
	g.Expect(files["go.mod"]).To(ContainSubstring(homeostat + " v1.2.3\n"))
	g.Expect(files["go.mod"]).NotTo(ContainSubstring("replace"))
}

// A new operator is deployed like the examples, by all manifests there are.
func TestTheManifestsAreComplete(t *testing.T) {
	g := NewWithT(t)
	files, err := render(parameters{Group: "example.com", Version: "v1", Kind: "Widget"}.withDefaults(), source{Homeostat: "v1.2.3"})
	g.Expect(err).NotTo(HaveOccurred())
	var all strings.Builder
	for name, text := range files {
		folder, _, _ := strings.Cut(name, "/")
		manifest := strings.TrimPrefix(name, folder+"/")
		if folder != "config" && folder != "monitoring" || manifest == "kustomization.yaml" || manifest == "sample.yaml" {
			continue
		}
		all.Write(text)
		g.Expect(string(files[folder+"/kustomization.yaml"])).To(MatchRegexp(`(?m)^(  - |    files: \[)` + manifest + `\]?$`))
	}
	g.Expect(len(files)).To(BeNumerically("<", 30), "a newcomer looks through them")
	for _, want := range []string{
		"kind: CustomResourceDefinition\n", "kind: PodDisruptionBudget\n", "kind: NetworkPolicy\n", "kind: Service\n",
		"pod-security.kubernetes.io/enforce: restricted\n", "topologySpreadConstraints:\n", "startupProbe:", "livenessProbe:\n",
		"readinessProbe:\n", "kind: PodMonitor\n", "unhealthyPodEvictionPolicy: AlwaysAllow\n", "fieldPath: metadata.name\n", `aggregate-to-view: "true"`, `aggregate-to-edit: "true"`,
	} {
		g.Expect(all.String()).To(ContainSubstring(want))
	}
}

// The alerts and the dashboard are about all programs, so every program that is
// deployed brings the same objects.
func TestTheAlertsAndTheDashboardEqualTheExamples(t *testing.T) {
	g := NewWithT(t)
	files, err := render(parameters{Group: "example.com", Version: "v1", Kind: "Widget"}.withDefaults(), source{Homeostat: "v1.2.3"})
	g.Expect(err).NotTo(HaveOccurred())
	examples, err := os.ReadFile("../../examples/monitoring/alerts.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	_, want, _ := strings.Cut(string(examples), "\napiVersion:")
	_, got, _ := strings.Cut(string(files["monitoring/alerts.yaml"]), "\napiVersion:")
	g.Expect(got).To(Equal(want), "copy it")
	dashboard, err := os.ReadFile("../../examples/monitoring/dashboard.json")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(files["monitoring/dashboard.json"])).To(Equal(string(dashboard)), "copy it")
}

// bug returns what the README says to replace in controller.go, and by what.
func bug(t *testing.T, readme []byte) (before, after string) {
	t.Helper()
	_, text, found := strings.Cut(string(readme), "```diff\n")
	text, _, closed := strings.Cut(text, "```")
	NewWithT(t).Expect(found && closed).To(BeTrue(), "the README has a diff")
	for line := range strings.Lines(text) {
		if line[0] != '+' {
			before += line[1:]
		}
		if line[0] != '-' {
			after += line[1:]
		}
	}
	return before, after
}

func TestTheBugOfTheReadmeFitsTheController(t *testing.T) {
	g := NewWithT(t)
	for _, n := range []parameters{{Kind: "Widget"}, {Kind: "Context"}, {Kind: "Widget", ClusterScoped: true}, {Kind: "Widget", Secret: true}} {
		n.Group, n.Version = "example.com", "v1"
		files, err := render(n.withDefaults(), source{Homeostat: "v1.2.3"})
		g.Expect(err).NotTo(HaveOccurred())
		before, after := bug(t, files["README.md"])
		g.Expect(strings.Count(string(files["controller.go"]), before)).To(Equal(1), before)
		g.Expect(after).NotTo(Equal(before))
		buggy := strings.Replace(string(files["controller.go"]), before, after, 1)
		lineOf := func(call string) string {
			to, _, found := strings.Cut(buggy, call)
			g.Expect(found).To(BeTrue(), call)
			return fmt.Sprintf("(controller.go:%d)", strings.Count(to, "\n")+1)
		}
		g.Expect(string(files["README.md"])).To(And(
			ContainSubstring("/a   "+lineOf(".configMaps.Ensure(")),
			ContainSubstring("a   "+lineOf("patch.Status("))))
	}
}

// A kind whose name means something else in the code gets a variable of another
// name.
func TestObjectsAreCalledByTheirKindWhereGoAllowsIt(t *testing.T) {
	g := NewWithT(t)
	for kind, variable := range map[string]string{
		"Widget": "widget", "DNSZone": "dnszone", "Type": "object", "Context": "object", "Err": "object", "String": "object",
	} {
		files, err := render(parameters{Group: "example.com", Version: "v1", Kind: kind}.withDefaults(), source{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(files["controller.go"])).To(ContainSubstring(variable+", ok := request.Object()"), kind)
	}
	files, err := render(parameters{Group: "example.com", Version: "v1", Kind: "Widget"}.withDefaults(), source{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	})).To(ContainElements(".gitignore", "go.mod", "api/v1/widget_types.go", "config/crd/example.com_widgets.yaml"))
}

// A line has room for long names, and ends with a sentence or where the next
// word would make it longer than 80 columns.
func TestCommentsAreNeitherTooWideNorBrokenOddly(t *testing.T) {
	for _, n := range []parameters{
		{Group: "example.com", Version: "v1", Kind: "Widget"},
		{Group: "example.com", Version: "v1", Kind: "Widget", ClusterScoped: true},
		{Group: "example.com", Version: "v1", Kind: "Widget", Secret: true},
		{Group: "example.com", Version: "v1", Kind: "PersistentBackupScheduleOfTenants"},
		{Group: "example.com", Version: "v1", Kind: "PersistentBackupScheduleOfTenants", ClusterScoped: true, Secret: true},
	} {
		files, err := render(n.withDefaults(), source{Homeostat: "v1.2.3", Replace: "../homeostat"})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		for name, text := range files {
			if strings.HasSuffix(name, "deepcopy.go") || strings.Contains(name, "/crd/") { // made by controller-gen
				continue
			}
			for line, what := range oddComments(name, string(text)) {
				t.Errorf("%s:%d: %s", name, line, what)
			}
		}
	}
}

// oddComments returns what is odd about the lines that are comments or, in
// Markdown, prose.
func oddComments(name, text string) map[int]string {
	odd := map[int]string{}
	before, fenced := "", false
	for i, line := range strings.Split(strings.ReplaceAll(text, "\t", "    "), "\n") {
		comment := regexp.MustCompile(`^ *(//|#) ([^+].*)$`).FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "```"):
			fenced, before = !fenced, ""
			continue
		case path.Ext(name) == ".md":
			if before != "" && line != "" && !fenced && !strings.HasPrefix(line, "|") {
				odd[i+1] = "a paragraph is one line: " + line
			}
			before = line
			continue
		case comment == nil:
			before = ""
			if _, trailing, ok := strings.Cut(line, " # "); ok && len(line) > 100 {
				odd[i+1] = fmt.Sprintf("%d columns: %s", len(line), trailing)
			}
			continue
		case len(line) > 100:
			odd[i+1] = fmt.Sprintf("%d columns: %s", len(line), line)
		}
		next, _, _ := strings.Cut(comment[2], " ")
		if before != "" && !strings.ContainsAny(before[len(before)-1:], ".:") && len(before)+1+len(next) <= 80 {
			odd[i] = fmt.Sprintf("%q has room there", next)
		}
		before = line
	}
	return odd
}
