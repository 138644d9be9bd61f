package operator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestMainSaysWhatIsWrongAndExits(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	valid := filepath.Join(t.TempDir(), "config")
	NewWithT(t).Expect(os.WriteFile(valid, []byte(kubeconfig), 0o600)).To(Succeed())
	p := operator.Program{
		Name:  "test",
		Flags: func(fs *flag.FlagSet) { fs.Int("own", 0, "a flag of its own") },
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			if env.Context == nil || !strings.HasPrefix(env.Cluster.Config().UserAgent, "test/") || env.Events == nil || env.Leader != nil {
				return nil, errors.New("the environment is wrong")
			}
			return nil, errors.New("no controllers today")
		},
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":                {[]string{"--help"}, 0, "-own"},
		"an unknown flag":     {[]string{"--unknown"}, 2, "-unknown"},
		"an argument":         {[]string{"what"}, 2, `unexpected argument "what"`},
		"an unknown format":   {[]string{"--log-format=xml"}, 2, `--log-format is "xml"`},
		"no cluster":          {nil, 1, "set --kubeconfig or KUBECONFIG"},
		"a missing file":      {[]string{"--kubeconfig=/none"}, 1, "/none"},
		"faults of the setup": {[]string{"--kubeconfig=" + valid}, 1, "no controllers today"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var said bytes.Buffer
			g.Expect(p.Main(c.args, &said)).To(Equal(c.code))
			g.Expect(said.String()).To(ContainSubstring(c.says))
		})
	}
}

func begins(operator.Env) ([]*reconcile.Controller, error) { return nil, errors.New("it has begun") }

func TestWhatSetupMadeIsLookedAtBeforeItRuns(t *testing.T) {
	file := answers(t, func(authorizationv1.ResourceAttributes) bool { return true })
	none := func(operator.Env) ([]*reconcile.Controller, error) { return nil, nil }
	alone := func(operator.Env) ([]*reconcile.Controller, error) { return podController(func() {}) }
	two := func(operator.Env) ([]*reconcile.Controller, error) {
		one, err := podController(func() {})
		return append(one, one...), err
	}
	for says, p := range map[string]operator.Program{
		"field Setup returned no controllers":             {Setup: none},
		"field Setup returned 2 controllers: must be one": {Setup: two, Replicas: operator.AllShare},
		"no controller has the Leader or the Shards":      {Setup: alone},
		"the program's Name or Setup is missing":          {},
		`field Needs: "pods": must be verbs`:              {Setup: alone, Needs: []string{"pods"}},
		`field Needs: "get  pods": must be verbs`:         {Setup: alone, Needs: []string{"get  pods"}},
		`field Needs: "get pods a b": must be verbs`:      {Setup: alone, Needs: []string{"get pods a b"}},
	} {
		g := NewWithT(t)
		p.Name = "test"
		var said bytes.Buffer
		g.Expect(p.Main([]string{"--kubeconfig=" + file, "--leader-elect", "--identity=me", "--listen-addr="}, &said)).NotTo(BeZero())
		g.Expect(said.String()).To(ContainSubstring(says))
	}
}

// answers is an API server that says what may be done, and knows nothing else.
func answers(t *testing.T, allowed func(asked authorizationv1.ResourceAttributes) bool) (kubeconfigFile string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		review, ok := asked.(*authorizationv1.SelfSubjectAccessReview)
		if err != nil || !ok {
			http.NotFound(w, r)
			return
		}
		review.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"))
		review.Status.Allowed = allowed(*review.Spec.ResourceAttributes)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "config")
	NewWithT(t).Expect(os.WriteFile(file, []byte(strings.Replace(kubeconfig, "http://127.0.0.1:1", server.URL, 1)),
		0o600)).To(Succeed())
	return file
}

func TestAMissingPermissionIsNamedBeforeAnythingStarts(t *testing.T) {
	p := operator.Program{
		Name: "test", Usage: "test: does nothing",
		Needs: []string{"list,watch pods", "patch widgets.example.com/status", "delete configmaps mine"},
		Setup: begins,
	}
	for name, c := range map[string]struct {
		refused string
		args    []string
		says    []string
	}{
		"nothing":         {"", nil, []string{"it has begun"}},
		"a subresource":   {"widgets", nil, []string{"missing permission to patch widgets.example.com/status: grant it"}},
		"all of a kind":   {"pods", nil, []string{"permission to list pods", "permission to watch pods"}},
		"one of a name":   {"configmaps", nil, []string{"permission to delete configmaps mine: grant it"}},
		"an unused Lease": {"leases", nil, []string{"it has begun"}},
		"a Lease": {
			"leases",
			[]string{"--leader-elect", "--namespace=here"},
			[]string{
				"permission to create leases.coordination.k8s.io in namespace here",
				"permission to update leases.coordination.k8s.io test in namespace here",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			file := answers(t, func(asked authorizationv1.ResourceAttributes) bool {
				return asked.Resource != c.refused || asked.Name == "" && asked.Resource == "configmaps"
			})
			var said bytes.Buffer
			g.Expect(p.Main(append(c.args, "--kubeconfig="+file, "--listen-addr="), &said)).To(Equal(1))
			for _, text := range c.says {
				g.Expect(said.String()).To(ContainSubstring(text))
			}
			if c.says[0] != "it has begun" {
				g.Expect(said.String()).NotTo(ContainSubstring("it has begun"))
			}
		})
	}
}

func TestAServerThatDoesNotAnswerIsNamed(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "config")
	g.Expect(os.WriteFile(file, []byte(kubeconfig), 0o600)).To(Succeed())
	p := operator.Program{Name: "test", Needs: []string{"get pods"}, Setup: begins}
	var said bytes.Buffer
	g.Expect(p.Main([]string{"--kubeconfig=" + file, "--startup-timeout=1ms"}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("reaching the API server at http://127.0.0.1:1: no answer in 1ms"))
	said.Reset()
	g.Expect(p.Main([]string{"--startup-timeout=0s"}, &said)).To(Equal(2))
	g.Expect(said.String()).To(ContainSubstring("--startup-timeout is 0s"))
}

func TestHelpSaysWhatTheProgramDoes(t *testing.T) {
	g := NewWithT(t)
	help := func(p operator.Program) string {
		var said bytes.Buffer
		g.Expect(p.Main([]string{"-h"}, &said)).To(Equal(0))
		return said.String()
	}
	g.Expect(help(operator.Program{Name: "test", Usage: "test: does nothing", Setup: begins})).To(And(
		HavePrefix("test: does nothing\n"), ContainSubstring("-leader-elect"), ContainSubstring("-startup-timeout")))
	g.Expect(help(operator.Program{Name: "test", Replicas: operator.AllWork, Setup: begins})).To(And(
		HavePrefix("Usage of test:\n"), Not(ContainSubstring("-leader-elect"))))
}

func TestThePageNeedsATokenFromThisMachineToo(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(&rest.Config{Host: "http://127.0.0.1:1"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	access := operator.Authorize(c)
	from := func(path, address string) error {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr = address
		return access(r)
	}
	g.Expect(from("/metrics", "10.0.0.1:1")).To(Succeed())
	for _, path := range []string{"/debug/homeostat", "/debug/pprof/heap"} {
		g.Expect(from(path, "127.0.0.1:1")).To(MatchError(status.ErrUnauthenticated))
		g.Expect(from(path, "10.0.0.1:1")).To(MatchError(status.ErrUnauthenticated))
	}
}
