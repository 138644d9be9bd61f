package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/observe/internal/cli"
	"github.com/homeostat/homeostat/operator"
)

// unreachable is a kubeconfig of a cluster that is not there.
const unreachable = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: from-context}}]
current-context: x
`

// isolated keeps a test from finding a cluster, and returns a folder with a
// kubeconfig.
func isolated(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	NewWithT(t).Expect(os.WriteFile("config", []byte(unreachable), 0o600)).To(Succeed())
	NewWithT(t).Expect(os.WriteFile("script.sh", []byte("#!/bin/sh\n"), 0o700)).To(Succeed())
	NewWithT(t).Expect(os.WriteFile("plain.sh", []byte("#!/bin/sh\n"), 0o600)).To(Succeed())
	return dir
}

func TestWhatCannotWorkIsOneLineAndExitCode1(t *testing.T) {
	isolated(t)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no resource":              {nil, "you must specify at least one argument containing the resource to observe, such as services (see --help)"},
		"two resources":            {[]string{"a", "b"}, `unexpected argument "b": put -- between`},
		"no resource before --":    {[]string{"--", "true"}, "you must specify at least one argument"},
		"one object":               {[]string{"a/b"}, `RESOURCE is "a/b": must be one resource without a name; use --field-selector=metadata.name=NAME for a single object`},
		"an address without port":  {[]string{"a", "--listen-addr=local"}, `--listen-addr is "local": `},
		"no shell":                 {[]string{"completion"}, "must name a shell: bash, zsh, fish or powershell"},
		"another shell":            {[]string{"completion", "tcsh"}, "must name a shell: bash, zsh, fish or powershell"},
		"no command":               {[]string{"a", "--"}, "there is no command after --"},
		"an unknown flag":          {[]string{"a", "--bogus"}, "unknown flag: --bogus (see --help)"},
		"no number":                {[]string{"a", "--workers=many"}, "--workers"},
		"no workers":               {[]string{"a", "--workers=0"}, "--workers is 0: must be at least 1"},
		"a negative limit":         {[]string{"a", "--maximum-errors=-2"}, "--maximum-errors is -2: must be at least -1"},
		"negative orphans":         {[]string{"a", "--max-orphans=-2"}, "--max-orphans is -2"},
		"negative retries":         {[]string{"a", "--retry-count=-1"}, "--retry-count is -1"},
		"a negative code":          {[]string{"a", "--retry-on-exit-code=-1"}, "--retry-on-exit-code is -1"},
		"negative times":           {[]string{"a", "--timeout=-1s", "--resync-period=-1s", "--grace-period=-1s", "--min-interval=-1s", "--exit-after=-1s"}, "--timeout is -1s: must not be negative; --grace-period is -1s: must not be negative; --min-interval is -1s: must not be negative; --resync-period is -1s: must not be negative; --exit-after is -1s: must not be negative"},
		"labels":                   {[]string{"a", "-l", "a=(b"}, `--selector is "a=(b"`},
		"fields":                   {[]string{"a", "--field-selector", "a"}, `--field-selector is "a"`},
		"names without delete":     {[]string{"a", "--names=true"}, "--delete and --names must both be specified: "},
		"a log format":             {[]string{"a", "--log-format=xml"}, `--log-format is "xml"`},
		"a lease without election": {[]string{"a", "--lease=x/y"}, "--lease is set: must be used with --leader-elect"},
		"a duration without":       {[]string{"a", "--leader-elect-lease-duration=1m"}, "--leader-elect-lease-duration is set: must"},
		"a lease":                  {[]string{"a", "--lease=x"}, `--lease is "x": must be NAMESPACE/NAME`},
		"the name of a variable":   {[]string{"a", "--type-env-var=A=B"}, `--type-env-var is "A=B"`},
		"another malformed name":   {[]string{"a", "--object-env-var=1 2"}, `--object-env-var is "1 2"`},
		"no such program":          {[]string{"a", "--", "./none.sh"}, `COMMAND: exec: "./none.sh"`},
		"a line for a shell":       {[]string{"a", "--", "true x"}, "leave out the quotes around the command"},
		"a line for a shell in a flag": {
			[]string{"a", "--delete=true", "--names=cat x"},
			`--names: exec: "cat x": executable file not found in $PATH: commands run without a shell: give each argument a --names of its own`,
		},
		"a program of this folder":   {[]string{"a", "--", "script.sh"}, "for the file in this directory use ./script.sh"},
		"a program that may not run": {[]string{"a", "--delete=./plain.sh", "--names=true"}, "chmod +x ./plain.sh"},
		"two ways to say templates":  {[]string{"a", "-a", "{.b}", "--template={.c}"}, "--argument and --template cannot be used together"},
		"no time":                    {[]string{"a", "--kubeconfig=config", "--request-timeout=soon"}, `--request-timeout is "soon": must be a duration`},
		"a template":                 {[]string{"a", "-a", "{.b"}, `template "{.b"`},
		"a format":                   {[]string{"a", "-o", "yaml"}, `"yaml" is not a template format`},
		"no cluster":                 {[]string{"a"}, "finding a cluster: this process does not run in a Pod, and there is no kubeconfig: set --kubeconfig or KUBECONFIG, or --server"},
		"no such file":               {[]string{"a", "--kubeconfig=none"}, "reading the kubeconfig: stat none: "},
		"no such context":            {[]string{"a", "--kubeconfig=config", "--context=y"}, `reading the kubeconfig: context "y"`},
		"no server":                  {[]string{"a", "--kubeconfig=config"}, "connection refused; check that the server runs, and that the kubeconfig"},
		"no certificate": {
			[]string{"a", "--server=https://127.0.0.1:1", "--certificate-authority=plain.sh"}, "making a client: unable to load root certificates",
		},
		"no server to wait for": {[]string{"a", "--kubeconfig=config", "--wait"}, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var stdout, stderr bytes.Buffer
			g.Expect(cli.Main(append([]string{"observe"}, c.args...), &stdout, &stderr)).To(Equal(1))
			g.Expect(stdout.String()).To(BeEmpty())
			g.Expect(stderr.String()).To(And(HavePrefix("error: "), ContainSubstring(c.says)))
			g.Expect(strings.Count(stderr.String(), "\n")).To(Equal(1), stderr.String())
		})
	}
}

func TestWarningsAreForPeople(t *testing.T) {
	isolated(t)
	g := NewWithT(t)
	args := []string{"observe", "a", "--kubeconfig=config", "--delete=true", "--template", ".spec.clusterIP", "--template", "{.b}"}
	var stderr bytes.Buffer
	cli.Main(args, &stderr, &stderr)
	g.Expect(stderr.String()).To(And(
		ContainSubstring("warning: --delete without --names"),
		ContainSubstring(`warning: template ".spec.clusterIP" has no {...}`)))
	g.Expect(strings.Count(stderr.String(), "warning:")).To(Equal(2))
	stderr.Reset()
	cli.Main(append(args, "-q"), &stderr, &stderr)
	g.Expect(stderr.String()).NotTo(ContainSubstring("warning:"))
	stderr.Reset()
	cli.Main([]string{"observe", "a", "--kubeconfig=config", "-a", "{.a}", "-a", "{.b}"}, &stderr, &stderr)
	g.Expect(stderr.String()).To(ContainSubstring("warning: several --argument flags make one argument, as in oc: use --template"))
}

func TestOutputThatCannotBeWrittenIsReportedWithAnExitCode(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here: ", err)
	}
	defer full.Close()
	isolated(t)
	for _, args := range [][]string{{"--help"}, {"completion", "bash"}} {
		g := NewWithT(t)
		var stderr bytes.Buffer
		g.Expect(cli.Main(append([]string{"observe"}, args...), full, &stderr)).To(Equal(1))
		g.Expect(stderr.String()).To(Equal("error: writing to standard output: write /dev/full: no space left on device\n"))
		var stdout bytes.Buffer
		g.Expect(cli.Main([]string{"observe"}, &stdout, full)).To(Equal(1))
	}
}

func TestTheVersionNeedsNoCluster(t *testing.T) {
	isolated(t)
	g := NewWithT(t)
	var stdout, stderr bytes.Buffer
	g.Expect(cli.Main([]string{"observe", "--version"}, &stdout, &stderr)).To(Equal(0))
	g.Expect(stdout.String()).To(Equal("observe " + operator.Version() + "\n"))
	g.Expect(stderr.String()).To(BeEmpty())
}

func TestHelpIsGroupedAndNamesThePlugin(t *testing.T) {
	g := NewWithT(t)
	var stdout bytes.Buffer
	g.Expect(cli.Main([]string{"/usr/local/bin/kubectl-observe", "--help"}, &stdout, &stdout)).To(Equal(0))
	help := stdout.String()
	for _, part := range []string{
		"Usage:\n  kubectl observe RESOURCE", "kubectl observe services -A", "Which objects:\n", "What a command gets:\n",
		"Deleted objects:\n", "How commands run:\n", "Failures:\n", "Output:\n", "Cluster:\n", "Exit codes: 0",
	} {
		g.Expect(help).To(ContainSubstring(part))
	}
	for line := range strings.Lines(help) {
		g.Expect(len(line)).To(BeNumerically("<=", 112), line)
	}
	stdout.Reset()
	g.Expect(cli.Main([]string{"kubectl-observe", "help"}, &stdout, &stdout)).To(Equal(0))
	g.Expect(stdout.String()).To(Equal(help))
	for _, args := range [][]string{{"completion", "--help"}, {"help", "completion"}} {
		stdout.Reset()
		g.Expect(cli.Main(append([]string{"kubectl-observe"}, args...), &stdout, &stdout)).To(Equal(0))
		g.Expect(stdout.String()).To(And(
			HavePrefix("Write a script that completes this command:\n"),
			ContainSubstring("source <(kubectl-observe completion bash)"),
			ContainSubstring("Usage:\n  kubectl observe completion bash|zsh|fish|powershell\n")))
	}
	stdout.Reset()
	g.Expect(cli.Main([]string{"kubectl-observe", "completion", "fish"}, &stdout, &stdout)).To(Equal(0))
	g.Expect(stdout.String()).To(ContainSubstring("complete -c kubectl-observe"))
	g.Expect(stdout.String()).NotTo(ContainSubstring("complete -c kubectl "), "that is kubectl's own")
	stdout.Reset()
	g.Expect(cli.Main([]string{"observe", "completion", "fish"}, &stdout, &stdout)).To(Equal(0))
	g.Expect(stdout.String()).To(ContainSubstring("complete -c observe"))
}
