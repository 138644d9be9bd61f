package cli_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/observe/internal/cli"
	"github.com/homeostat/homeostat/internal/apisim"
)

// served is isolated with a server: ConfigMaps a and b in namespace
// from-context, and c in other.
func served(t *testing.T) kubernetes.Interface {
	t.Helper()
	dir := isolated(t)
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{Lifecycle: true})
	g.Expect(err).NotTo(HaveOccurred())
	client := kubernetes.NewForConfigOrDie(sim.Admin())
	for _, key := range []string{"from-context/a", "from-context/b", "other/c"} {
		ns, name, _ := strings.Cut(key, "/")
		_, err := client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		if name != "b" {
			g.Expect(err).NotTo(HaveOccurred())
		}
		_, err = client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}}, Data: map[string]string{"x": "1"},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	text := strings.Replace(unreachable, "http://127.0.0.1:1", server.URL, 1)
	g.Expect(os.WriteFile(dir+"/config", []byte(text), 0o600)).To(Succeed())
	t.Setenv("KUBECONFIG", dir+"/config")
	return client
}

// observed is the outcome of a run with these arguments.
func observed(args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = cli.Main(append([]string{"observe"}, args...), &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestOnceAgainstAServer(t *testing.T) {
	served(t)
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string // text that it contains
	}{
		"the namespace of the context": {[]string{"configmaps", "--", "echo", "did"}, 0, "did from-context a\n", "2 keys, 2 runs"},
		"a namespace":                  {[]string{"cm", "-n", "other", "--", "echo", "did"}, 0, "did other c\n", "1 keys, 1 runs"},
		"all namespaces":               {[]string{"cm", "-A", "-l", "of in (a, c)", "--", "echo", "did"}, 0, "did other c\n", "2 keys, 2 runs"},
		"fields":                       {[]string{"cm", "-A", "--field-selector=metadata.name=b", "--", "echo"}, 0, "from-context b\n", "1 keys"},
		"cluster-scoped":               {[]string{"namespaces", "-n", "other", "-l", "kubernetes.io/metadata.name=other"}, 0, "\tother\n", "1 keys"},
		"nothing there":                {[]string{"secrets"}, 0, "", "Nothing to sync, exiting immediately"},
		"a template":                   {[]string{"cm", "-l", "of=a", "-a", "{.data.x}", "--", "echo", "did"}, 0, "did from-context a 1\n", ""},
		"a missing field, strictly":    {[]string{"cm", "-l", "of=a", "-a", "{.data.z}", "--strict-templates"}, 2, "", "z is not found"},
		"progress as JSON":             {[]string{"cm", "-l", "of=a", "-o", "json", "--", "echo", "did"}, 0, `"name":"a"`, "did from-context a\n"},
		"the object to read":           {[]string{"cm", "-l", "of=a", "--stdin", "--", "sh", "-c", "cat"}, 0, `"data":{"x":"1"}`, ""},
		"what begins with a dash":      {[]string{"cm", "-l", "of=a", "-a", "-{.data.x}", "--", "echo"}, 2, "", "--allow-leading-dashes"},
		"a dash that may be":           {[]string{"cm", "-l", "of=a", "-a", "-{.data.x}", "--allow-leading-dashes", "--", "echo"}, 0, "from-context a -1\n", ""},
		"a failure":                    {[]string{"cm", "-l", "of=a", "--", "sh", "-c", "exit 7"}, 2, "", "status code 7"},
		"a name that is deleted": {
			[]string{"cm", "--names=echo", "--names=from-context/z", "--delete=echo", "--delete=gone"}, 0, "gone from-context z\n", "1 deletions",
		},
		"names that fail": {[]string{"cm", "--names=false", "--delete=true"}, 3, "", "status code 1"},
		"too many orphans": {
			[]string{"cm", "--max-orphans=1", "--names=printf", `--names=from-context/y\nfrom-context/z\n`, "--delete=echo"}, 3, "", "start once with --max-orphans=2",
		},
		"no limit of orphans": {
			[]string{"cm", "--max-orphans=-1", "--names=printf", `--names=from-context/y\nfrom-context/z\n`, "--delete=echo"}, 0, "from-context z\n", "2 deletions",
		},
		"a dry run": {[]string{"cm", "-l", "of=a", "--dry-run", "--leader-elect", "--", "false"}, 0, "false from-context a", "1 keys"},
		"metrics":   {[]string{"cm", "-l", "of=a", "--print-metrics-on-exit"}, 0, `observe_counts{type="Sync"} 1`, ""},
		"a Lease":   {[]string{"cm", "-l", "of=a", "--leader-elect", "--lease=other/mine", "--", "echo", "led"}, 0, "led from-context a\n", ""},
		"an address that is taken by another": {
			[]string{"cm", "--listen-addr=256.0.0.1:1"}, 1, "", "error: ",
		},
		"a kind that is not there":  {[]string{"widgets.example.com"}, 1, "", "if its CustomResourceDefinition will be created later, use --wait"},
		"a kind that is nearly one": {[]string{"configmap5"}, 1, "", "did you mean configmaps?"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var stdout, stderr bytes.Buffer
			code := cli.Main(append([]string{"observe", "--kubeconfig=config", "--once"}, c.args...), &stdout, &stderr)
			g.Expect(stdout.String()).To(ContainSubstring(c.stdout))
			g.Expect(stderr.String()).To(ContainSubstring(c.stderr))
			g.Expect(code).To(Equal(c.code), stderr.String())
		})
	}
}

func TestACommandIsRepeatedAtOnceOnlyIfAsked(t *testing.T) {
	served(t)
	g := NewWithT(t)
	for flag, times := range map[string]int{"--quiet": 1, "--no-headers": 1, "--retry-on-exit-code=1": 3, "--retry-on-exit-code=2": 1} {
		var stdout, stderr bytes.Buffer
		g.Expect(cli.Main([]string{
			"observe", "--kubeconfig=config", "--once", "cm", "-l", "of=a", flag, "--", "sh", "-c", "echo did; exit 1",
		}, &stdout, &stderr)).To(Equal(2), stderr.String())
		g.Expect(strings.Count(stdout.String(), "did\n")).To(Equal(times), flag)
	}
}

func TestALeaseIsTakenOnlyIfAsked(t *testing.T) {
	for name, c := range map[string]struct {
		args        []string
		environment string
		want        []string
	}{
		"not asked":                {nil, "", nil},
		"the default":              {[]string{"--leader-elect"}, "", []string{"default/observe-configmaps"}},
		"the namespace of the Pod": {[]string{"--leader-elect"}, "other", []string{"other/observe-configmaps"}},
		"named":                    {[]string{"--leader-elect", "--lease=other/mine"}, "", []string{"other/mine"}},
		"a dry run":                {[]string{"--leader-elect", "--dry-run"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			client := served(t)
			g := NewWithT(t)
			t.Setenv("POD_NAMESPACE", c.environment)
			code, _, stderr := observed(append([]string{"--once", "cm", "-l", "of=a"}, c.args...)...)
			g.Expect(code).To(BeZero(), stderr)
			all, err := client.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			var taken []string
			for _, l := range all.Items {
				taken = append(taken, l.Namespace+"/"+l.Name)
			}
			g.Expect(taken).To(Equal(c.want))
		})
	}
}

func TestItEndsAfterTheTimeThatIsGiven(t *testing.T) {
	served(t)
	g := NewWithT(t)
	code, stdout, stderr := observed("cm", "--exit-after=1ns", "--listen-addr=", "--", "echo", "did")
	g.Expect(code).To(BeZero(), stderr)
	g.Expect(stdout).NotTo(ContainSubstring("did"))
	g.Expect(stderr).To(ContainSubstring("Shutting down after 1ns ...\n"))
	_, _, stderr = observed("cm", "--once")
	g.Expect(stderr).NotTo(ContainSubstring("Shutting down"))
}

// The command keeps it running until the probes have answered.
func TestProbesAndMetricsAreServedWhileItRuns(t *testing.T) {
	for verbosity, logs := range map[string]int{"-v0": 0, "-v1": 1} {
		t.Run(verbosity, func(t *testing.T) {
			served(t)
			g := NewWithT(t)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			g.Expect(err).NotTo(HaveOccurred())
			address := listener.Addr().String()
			g.Expect(listener.Close()).To(Succeed())
			code, said := make(chan int, 1), make(chan string, 1)
			go func() {
				got, _, stderr := observed("cm", "--once", "-l", "of=a", verbosity, "--listen-addr="+address, "--",
					"sh", "-c", "until [ -e go ]; do sleep 0.05; done")
				code <- got
				said <- stderr
			}()
			get := func(path string) func() (string, error) {
				return func() (string, error) {
					answer, err := http.Get("http://" + address + path)
					if err != nil {
						return "", err
					}
					defer answer.Body.Close()
					body, err := io.ReadAll(answer.Body)
					return strconv.Itoa(answer.StatusCode) + " " + string(body), err
				}
			}
			g.Eventually(get("/healthz"), time.Minute, 50*time.Millisecond).Should(Equal("200 ok"))
			g.Expect(get("/metrics")()).To(ContainSubstring("\nobserve_"))
			g.Expect(os.WriteFile("go", nil, 0o600)).To(Succeed())
			g.Eventually(code, time.Minute).Should(Receive(BeZero()))
			g.Expect(strings.Count(<-said, "serving status")).To(Equal(logs))
		})
	}
}

func TestNothingToSyncIsPrintedOnlyWithoutObjects(t *testing.T) {
	served(t)
	for args, says := range map[string]bool{
		"secrets --once":                           true,
		"cm --once -l of=a":                        false,
		"secrets --once --quiet":                   false,
		"cm --once -l of=a --quiet":                false,
		"secrets --exit-after=1s --listen-addr=":   false,
		"secrets --once --listen-addr=256.0.0.1:1": false, // which is an error
	} {
		_, _, stderr := observed(strings.Fields(args)...)
		NewWithT(t).Expect(strings.Contains(stderr, "Nothing to sync")).To(Equal(says), "%s: %s", args, stderr)
	}
}

// The default address may belong to another observer. An address that was asked
// for must be free.
func TestAnAddressThatIsTaken(t *testing.T) {
	served(t)
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:11251")
	if err == nil { // otherwise another program has it, which is as well
		defer listener.Close()
	}
	code, _, stderr := observed("cm", "--exit-after=500ms")
	g.Expect(code).To(BeZero(), stderr)
	g.Expect(stderr).To(ContainSubstring("not serving probes and metrics: the address is in use"))
	code, _, stderr = observed("cm", "--once", "--listen-addr=127.0.0.1:11251")
	g.Expect(code).To(Equal(1))
	g.Expect(stderr).To(ContainSubstring("address already in use"))
	code, _, stderr = observed("cm", "--once")
	g.Expect(code).To(BeZero())
	g.Expect(stderr).NotTo(ContainSubstring("in use"), "a single pass serves nothing unless asked")
}

func TestShellsCompleteResourcesAndFiles(t *testing.T) {
	served(t)
	g := NewWithT(t)
	code, stdout, _ := observed("__complete", "configm")
	g.Expect(code).To(BeZero())
	g.Expect(stdout).To(Equal("configmaps\n:4\n"), "and no files")
	_, stdout, _ = observed("__complete", "")
	g.Expect(stdout).To(And(ContainSubstring("\nservices\n"), ContainSubstring("\npods\n")))
	_, stdout, _ = observed("__complete", "configmaps", "")
	g.Expect(stdout).To(Equal(":0\n"), "files: the command")
	_, stdout, _ = observed("__complete", "--kubeconfig=none", "configm")
	g.Expect(stdout).To(Equal(":1\n"), "an error")
	_, stdout, _ = observed("__complete", "completion", "")
	g.Expect(stdout).To(HavePrefix("bash\nzsh\nfish\npowershell\n"))
}

func TestEachShellHasAScript(t *testing.T) {
	isolated(t)
	for shell, text := range map[string]string{
		"bash": "__start_observe", "zsh": "#compdef observe", "fish": "complete -c observe", "powershell": "Register-ArgumentCompleter",
	} {
		code, stdout, stderr := observed("completion", shell)
		NewWithT(t).Expect(code).To(BeZero(), stderr)
		NewWithT(t).Expect(stdout).To(ContainSubstring(text))
	}
}

// It is created while it is waited for.
func TestAResourceCanBeWaitedFor(t *testing.T) {
	served(t)
	g := NewWithT(t)
	code, _, stderr := observed("widgets.example.com", "--wait", "--exit-after=1500ms", "--listen-addr=")
	g.Expect(code).To(BeZero(), stderr)
	g.Expect(strings.Count(stderr, "the server does not have the resource yet, waiting for it resource=widgets.example.com\n")).To(Equal(1))
}
