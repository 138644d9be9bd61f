// Command peers runs tests of client-go and controller-runtime against the
// shared informers of package clientgo and the queues of package workqueue, and
// writes the results to docs/peers.md. It reads the tests from the module
// cache, copies them to a scratch folder, and deletes the folder at the end.
//
//	go run ./internal/proof/peers docs/peers.md
//	go run ./internal/proof/peers -race -count 20 -client-go
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

//go:embed *.go.txt peers.md
var files embed.FS

// Modules whose tests are run.
const (
	clientGo          = "k8s.io/client-go"
	controllerRuntime = "sigs.k8s.io/controller-runtime"
)

func main() {
	race := flag.Bool("race", false, "run the tests with the race detector")
	count := flag.Int("count", 1, "how many times each test runs")
	clientGoOnly := flag.Bool("client-go", false, "run only the suites of client-go, because they need no server, and "+
		"write no page")
	flag.Parse()
	s := &scratchModule{flags: []string{fmt.Sprintf("-count=%d", *count)}}
	if *race {
		s.flags = append(s.flags, "-race")
	}
	if err := run(context.Background(), s, flag.Arg(0), *clientGoOnly); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// suite contains the results of one test suite of client-go or
// controller-runtime.
type suite struct {
	Module, Version, Folder string
	Passed                  int
	Failed                  []string
	Excluded                []exclusion
}

// exclusion is a test that is not run.
type exclusion struct{ Test, Reason string }

// run runs the suites and writes a page. It returns an error if a test fails,
// after it has written the page. If clientGoOnly is true, it runs only the
// suites of client-go, and writes no page.
func run(ctx context.Context, s *scratchModule, page string, clientGoOnly bool) error {
	if page == "" && !clientGoOnly {
		return errors.New("usage: peers PAGE")
	}
	scratch, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	s.dir = scratch
	if err := s.prepare(ctx); err != nil {
		return err
	}
	var suites []suite
	for _, src := range sources {
		result, err := s.runClientGo(ctx, src)
		if err != nil {
			return err
		}
		suites = append(suites, result)
	}
	if clientGoOnly {
		return failures(suites)
	}
	managers, err := s.runControllerRuntime(ctx)
	if err != nil {
		return err
	}
	suites = append(suites, managers)
	if err := write(page, suites); err != nil {
		return err
	}
	return failures(suites)
}

// failures returns an error that names the failed tests, or nil.
func failures(suites []suite) error {
	var failed []string
	for _, s := range suites {
		failed = append(failed, s.Failed...)
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d tests failed: %s", len(failed), strings.Join(failed, "; "))
	}
	return nil
}

func write(page string, suites []suite) error {
	t, err := template.ParseFS(files, "peers.md")
	if err != nil {
		return err
	}
	out, err := os.Create(page)
	if err != nil {
		return err
	}
	return errors.Join(t.Execute(out, suites), out.Close())
}

// scratchModule is the module in which the tests are built.
type scratchModule struct {
	dir      string
	flags    []string          // flags for go test
	versions map[string]string // the versions of the modules
	folders  map[string]string
}

// goMod is the go.mod of the scratch module.
const goMod = `module peers

go 1.26.0

require (
	github.com/homeostat/homeostat v0.0.0-00010101000000-000000000000
	github.com/google/go-cmp v0.7.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	k8s.io/client-go %s
	sigs.k8s.io/controller-runtime %s
)

replace (
	github.com/homeostat/homeostat => %s
	sigs.k8s.io/controller-runtime => ./controller-runtime
)
`

// prepare writes the scratch module.
func (s *scratchModule) prepare(ctx context.Context) error {
	s.versions, s.folders = map[string]string{}, map[string]string{}
	for _, module := range []string{clientGo, controllerRuntime} {
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", module).Output()
		if err != nil {
			return fmt.Errorf("finding module %s: %w", module, err)
		}
		s.versions[module], s.folders[module], _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	text := fmt.Sprintf(goMod, s.versions[clientGo], s.versions[controllerRuntime], root)
	sums, err := os.ReadFile("internal/proof/go.sum")
	if err != nil {
		return err
	}
	return errors.Join(s.write("go.mod", text), s.write("go.sum", string(sums)), s.copyControllerRuntime())
}

// copyControllerRuntime copies the source of controller-runtime and changes the
// constructor that its tests call. There is no other way to make the tests call
// a different constructor.
func (s *scratchModule) copyControllerRuntime() error {
	copied := filepath.Join(s.dir, "controller-runtime")
	if err := os.CopyFS(copied, os.DirFS(s.folders[controllerRuntime])); err != nil {
		return err
	}
	const file = "controller-runtime/pkg/cache/internal/informers.go"
	const constructor = "newInformer := cache.NewSharedIndexInformer"
	text, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil {
		return err
	}
	if strings.Count(string(text), constructor) != 1 {
		return fmt.Errorf("%s does not contain %q exactly once", file, constructor)
	}
	changed := strings.NewReplacer(constructor, "newInformer := clientgo.NewSharedIndexInformer",
		"import (\n", "import (\n\t\"github.com/homeostat/homeostat/informer/clientgo\"\n").Replace(string(text))
	return errors.Join(os.Chmod(filepath.Join(s.dir, file), 0o644), s.write(file, changed))
}

func (s *scratchModule) write(name, text string) error {
	path := filepath.Join(s.dir, name)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

// test runs go test in the scratch module with args, and returns its output. A
// failed test is not an error, but a test that cannot be run is.
func (s *scratchModule) test(ctx context.Context, environment []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-vet=off", "-timeout", "60m"}, s.flags, args)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	cmd.Env = append(cmd.Env, environment...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return "", err
	}
	_, _ = io.Copy(os.Stderr, strings.NewReader(lastLines(string(out))))
	return string(out), nil
}

func lastLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

// source is a file of client-go's tests, with the changes that make it test our
// implementation.
type source struct {
	folder, file string
	helpers      []string // other test files that the file needs
	shim         string   // a file that replaces the declarations of client-go's package that the tests use
	leave        []string // prefixes of functions, such as "isStarted(", that are left out because the shim has them
	excluded     []exclusion
	replace      []string // pairs of an old and a new text
}

var sources = []source{ //nolint:gochecknoglobals // a table
	{
		folder: "util/workqueue", file: "queue_test.go", shim: "queue.go.txt",
		excluded: []exclusion{
			{"TestCollapse", "puts another store into client-go's queue"},
			{"TestCollapseWhileProcessing", "puts another store into client-go's queue"},
		},
		replace: []string{"*workqueue.Type", "workqueue.Interface", "workqueue.New()", "newPeer()"},
	},
	{
		folder: "util/workqueue", file: "delaying_queue_test.go", shim: "delaying.go.txt",
		leave: []string{"waitForWaitingQueueToFill("},
	},
	{
		folder: "tools/cache", file: "shared_informer_test.go", helpers: []string{"main_test.go", "util_test.go"},
		shim: "cache.go.txt", leave: []string{"eventHandlerCount(", "isStarted(", "isRegistered("},
		excluded: []exclusion{
			{"TestResyncCheckPeriod", "compares private fields of client-go's type"},
			{"TestSharedInformerWatchDisruption", "sets the private clock of client-go's type; the random world of package " +
				"clientgo breaks watches, too"},
		},
		replace: []string{
			"NewSharedInformer(", "newPeer(", "NewSharedIndexInformer(", "newPeerWithIndexers(",
			"\ttestingclock \"k8s.io/utils/clock/testing\"\n", "",
			"\tfcache \"k8s.io", "\t. \"k8s.io/client-go/tools/cache\"\n\tfcache \"k8s.io",
		},
	},
}

// runClientGo runs a file of client-go's tests.
func (s *scratchModule) runClientGo(ctx context.Context, src source) (suite, error) {
	folder := filepath.Join(s.folders[clientGo], src.folder)
	result := suite{
		Module: clientGo, Version: s.versions[clientGo], Folder: src.folder + ", " + src.file, Excluded: src.excluded,
	}
	text, err := os.ReadFile(filepath.Join(folder, src.file))
	if err != nil {
		return result, err
	}
	shim, err := files.ReadFile(src.shim)
	if err != nil {
		return result, err
	}
	target := strings.TrimSuffix(src.shim, ".go.txt")
	err = errors.Join(s.write(target+"/"+src.file, src.adapted(string(text))),
		s.write(target+"/shim_test.go", string(shim)))
	for _, name := range src.helpers {
		helper, readErr := os.ReadFile(filepath.Join(folder, name))
		err = errors.Join(err, readErr, s.write(target+"/"+name, string(helper)))
	}
	if err != nil {
		return result, err
	}
	out, err := s.test(ctx, nil, "-v", "./"+target)
	if err != nil {
		return result, err
	}
	for _, line := range regexp.MustCompile(`(?m)^--- (PASS|FAIL): (\w+)`).FindAllStringSubmatch(out, -1) {
		if line[1] == "PASS" {
			result.Passed++
		} else {
			result.Failed = append(result.Failed, line[2])
		}
	}
	if result.Passed == 0 || len(result.Failed) == 0 && !strings.Contains(out, "\nPASS\n") {
		return result, fmt.Errorf("the tests of %s have printed no result", result.Folder)
	}
	return result, nil
}

// adapted returns the text of the tests, changed so that they are a separate
// package and call our constructor. It leaves out the functions that the shim
// has, and the excluded tests.
func (src source) adapted(tests string) string {
	const functions = `(?m)^(?:func |// [A-Z])`
	leave := slices.Clone(src.leave)
	for _, e := range src.excluded {
		leave = append(leave, e.Test+"(")
	}
	var kept strings.Builder
	starts := append(regexp.MustCompile(functions).FindAllStringIndex(tests, -1), []int{len(tests)})
	kept.WriteString(tests[:starts[0][0]])
	for n, start := range starts[:len(starts)-1] {
		part := tests[start[0]:starts[n+1][0]]
		if !slices.ContainsFunc(leave, func(name string) bool { return strings.HasPrefix(part, "func "+name) }) {
			kept.WriteString(part)
		}
	}
	return strings.NewReplacer(src.replace...).Replace(kept.String())
}

// runControllerRuntime runs the tests of controller-runtime's cache on a
// control plane.
func (s *scratchModule) runControllerRuntime(ctx context.Context) (result suite, err error) {
	result = suite{Module: controllerRuntime, Version: s.versions[controllerRuntime], Folder: "pkg/cache"}
	cluster, err := e2e.Start(ctx, &e2e.Options{Progress: os.Stderr, Flags: []string{
		"kube-apiserver:--disable-admission-plugins=ServiceAccount", // as envtest's
	}})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := cluster.KillControllerManager(); err != nil { // envtest runs without it, and the tests count ServiceAccounts
		return result, err
	}
	report := filepath.Join(s.dir, "report.json")
	environment := []string{"USE_EXISTING_CLUSTER=true", "KUBECONFIG=" + cluster.Kubeconfig()}
	if _, err := s.test(ctx, environment, "-run", "^TestSource$", controllerRuntime+"/pkg/cache", "-ginkgo.no-color",
		"-ginkgo.json-report="+report); err != nil {
		return result, err
	}
	return result, result.read(report)
}

// read reads the Ginkgo report in the file with this name, and adds its results
// to s.
func (s *suite) read(report string) error {
	text, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeType, LeafNodeText, State string
		}
	}
	if err := json.Unmarshal(text, &reports); err != nil {
		return err
	}
	for _, r := range reports {
		for _, spec := range r.SpecReports {
			name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
			switch {
			case spec.LeafNodeType == "It" && spec.State == "passed":
				s.Passed++
			case spec.State != "passed":
				s.Failed = append(s.Failed, name+" ("+spec.State+")")
			}
		}
	}
	return nil
}
