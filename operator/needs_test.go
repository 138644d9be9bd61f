package operator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/suspect"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// answers is an API server that answers reviews of permissions and has Pods,
// but no other kind.
func answers(t *testing.T, allowed func(asked authorizationv1.ResourceAttributes) bool) (kubeconfigFile string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(&metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1",
				APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true}},
			})
			return
		}
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
		"nothing":       {"", nil, []string{"it has begun"}},
		"a subresource": {"widgets", nil, []string{"missing permission to patch widgets.example.com/status: grant it"}},
		"all of a kind": {"pods", nil, []string{
			"test: missing permission to list pods: grant it, for example with a ClusterRole; missing permission to watch pods: " +
				"grant it, for example with a ClusterRole",
		}},
		"one of a name":   {"configmaps", nil, []string{"permission to delete configmaps mine: grant it"}},
		"an unused Lease": {"leases", nil, []string{"it has begun"}},
		"a Lease": {
			"leases",
			[]string{"--leader-elect", "--leader-elect-resource-namespace=here"},
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
				lines := strings.Split(strings.TrimSpace(said.String()), "\n")
				g.Expect(lines[len(lines)-1]).To(HavePrefix("test: "), "all that is missing is one line, the last one")
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
	g.Expect(p.Main([]string{"--kubeconfig=" + file, "--startup-timeout=1ms", "--listen-addr="}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("reaching the API server at http://127.0.0.1:1: no answer in 1ms"))
	said.Reset()
	g.Expect(p.Main([]string{"--startup-timeout=0s"}, &said)).To(Equal(2))
	g.Expect(said.String()).To(ContainSubstring("--startup-timeout is 0s"))
}

func TestANeedMayNameItsNamespaceAndItsCluster(t *testing.T) {
	g := NewWithT(t)
	var mu sync.Mutex
	asked := map[string][]string{}
	server := func(name string) string {
		return answers(t, func(a authorizationv1.ResourceAttributes) bool {
			mu.Lock()
			defer mu.Unlock()
			asked[name] = append(asked[name], strings.Join([]string{a.Verb, a.Resource, a.Name, a.Namespace}, ","))
			return name == "first" || a.Verb != "create"
		})
	}
	p := operator.Program{
		Name: "test", Setup: begins, Clusters: []operator.Cluster{{Name: "west"}},
		Needs: []string{
			"get secrets in kube-system", "get,watch configmaps settings in d", "list pods on west",
			"create jobs.batch in ci on west", "get events.events.k8s.io", "list,watch secrets by name", "list pods by name on west",
			"get secrets by name in d",
		},
	}
	var said bytes.Buffer
	g.Expect(p.Main([]string{
		"--kubeconfig=" + server("first"), "--west-kubeconfig=" + server("west"), "--listen-addr=",
	}, &said)).To(Equal(1))
	g.Expect(asked["first"]).To(ConsistOf("get,secrets,,kube-system", "get,configmaps,settings,d", "watch,configmaps,settings,d",
		"get,events,,"))
	g.Expect(asked["west"]).To(ConsistOf("list,pods,,", "create,jobs,,ci"))
	g.Expect(said.String()).To(ContainSubstring("cluster west of --west-kubeconfig: missing permission to create jobs.batch in " +
		"namespace ci: grant it, for example with a Role in ci"))
	g.Expect(said.String()).NotTo(ContainSubstring("it has begun"))
}

func TestMissingOptionalPermissionsAreLogged(t *testing.T) {
	g := NewWithT(t)
	file := answers(t, func(a authorizationv1.ResourceAttributes) bool { return a.Resource == "pods" })
	p := operator.Program{Name: "test", Setup: begins, Needs: []string{"get pods"}}
	var said bytes.Buffer
	g.Expect(p.Main([]string{"--kubeconfig=" + file, "--listen-addr=127.0.0.1:0"}, &said)).To(Equal(1))
	for _, wanted := range []string{
		"create events.events.k8s.io", "patch events.events.k8s.io", "create tokenreviews.authentication.k8s.io",
		"create subjectaccessreviews.authorization.k8s.io",
	} {
		g.Expect(said.String()).To(ContainSubstring(`msg="missing permission, continuing without it" permission="` + wanted + `"`))
	}
	g.Expect(said.String()).To(ContainSubstring("test: it has begun"))
	said.Reset()
	g.Expect(p.Main([]string{"--kubeconfig=" + file, "--listen-addr="}, &said)).To(Equal(1))
	g.Expect(said.String()).NotTo(ContainSubstring("reviews"), "there is no page")
	said.Reset()
	p.Needs = nil
	g.Expect(p.Main([]string{"--kubeconfig=" + file, "--listen-addr="}, &said)).To(Equal(1))
	g.Expect(said.String()).NotTo(ContainSubstring("continuing without it"), "nil asks for nothing")
}

func TestSetupChecksOptionalPermissions(t *testing.T) {
	file := answers(t, func(a authorizationv1.ResourceAttributes) bool { return a.Resource == "pods" })
	for _, lease := range []string{"--leader-elect=false", "--leader-elect"} {
		g := NewWithT(t)
		p := operator.Program{
			Name: "test", Clusters: []operator.Cluster{{Name: "west"}},
			Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
				g.Expect(env.CheckPermissions("get pods", "list pods on west")).To(Succeed())
				g.Expect(env.CheckPermissions("get secrets on west")).To(MatchError(operator.ErrPermission))
				g.Expect(env.CheckPermissions("get")).To(MatchError(ContainSubstring("must be verbs")))
				byHand := operator.Env{Context: env.Context, Cluster: unreachable(g)}
				g.Expect(byHand.CheckPermissions("get pods on west")).To(MatchError(ContainSubstring(`no cluster "west"`)))
				return nil, errors.New("seen")
			},
		}
		var said bytes.Buffer
		g.Expect(p.Main([]string{
			"--kubeconfig=" + file, "--west-kubeconfig=" + file, "--listen-addr=", lease, "--leader-elect-identity=me",
		}, &said)).To(Equal(1))
		g.Expect(said.String()).To(ContainSubstring("test: seen"))
	}
}

func TestAnUnknownAccountIsNamed(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`, http.StatusUnauthorized)
	}))
	defer server.Close()
	var said bytes.Buffer
	p := operator.Program{Name: "test", Setup: begins, Needs: []string{"get pods"}}
	g.Expect(p.Main([]string{"--kubeconfig=" + kubeconfigOf(t, server.URL), "--listen-addr="}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("does not know this account: check its token or certificate"))
}

func TestAMissingPermissionInAnOptionalNamespaceIsOnlyReported(t *testing.T) {
	g := NewWithT(t)
	var granted atomic.Bool
	file := answers(t, func(asked authorizationv1.ResourceAttributes) bool { return asked.Namespace != "b" || granted.Load() })
	p := operator.Program{
		Name: "test", Needs: []string{"list,watch pods in a?", "list,watch pods in b?", "get pods in c"}, Setup: begins,
	}
	var said bytes.Buffer
	g.Expect(p.Main([]string{"--kubeconfig=" + file, "--listen-addr="}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("it has begun"), "it goes on")
	p.Needs = []string{"list,watch pods in b"}
	said.Reset()
	g.Expect(p.Main([]string{"--kubeconfig=" + file, "--listen-addr="}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("missing permission to list pods in namespace b"))
	for _, wrong := range []string{"list pods in ?", "list pods? in a", "list pods in a on west?"} {
		p.Needs = []string{wrong}
		said.Reset()
		p.Main([]string{"--kubeconfig=" + file, "--listen-addr="}, &said)
		g.Expect(said.String()).To(ContainSubstring("operator.Program.Needs[0]"), wrong)
	}
}

// For example, a webhook of the server that authorizes requests does not
// answer, or a cache in between has answered a different question.
func TestAReviewWithoutADecisionIsNotAMissingPermission(t *testing.T) {
	for name, answer := range map[string]string{
		"no answer of a webhook": `"status":{"allowed":false,"evaluationError":"webhook: timeout"}`,
		"a webhook that fails":   `"status":{"allowed":false,"denied":true,"evaluationError":"webhook: timeout"}`,
		"another question": `"spec":{"resourceAttributes":{"verb":"get","resource":"secrets"}},` +
			`"status":{"allowed":false}`,
		"another question, allowed": `"spec":{"resourceAttributes":{"verb":"get","resource":"secrets"}},` +
			`"status":{"allowed":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var decided atomic.Bool
				page := absenttest.Page{Status: http.StatusCreated, ContentType: "application/json"}
				config := absenttest.Intercept(page.Config(), func(*http.Request) *absenttest.Page {
					status := answer
					if decided.Load() {
						status = `"status":{"allowed":true}`
					}
					page := page
					page.Body = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1",` + status + `}`
					return &page
				})
				c, err := cluster.New(config, nil)
				g.Expect(err).NotTo(HaveOccurred())
				err = operator.CheckPermissions(t.Context(), c, time.Minute, "list pods")
				g.Expect(err).To(MatchError(ContainSubstring("checking permission to list pods")))
				g.Expect(errors.Is(err, operator.ErrPermission)).To(BeFalse())
				time.AfterFunc(10*time.Second, func() { decided.Store(true) })
				g.Expect(operator.CheckPermissions(t.Context(), c, time.Minute, "list pods")).To(Succeed())
			})
		})
	}
}

// A permission that the program can do without does not stop it, even if the
// server does not answer the review.
func TestAReviewOfAnOptionalPermissionThatFailsIsLogged(t *testing.T) {
	g := NewWithT(t)
	file := answers(t, func(a authorizationv1.ResourceAttributes) bool {
		if a.Resource == "tokenreviews" {
			panic(http.ErrAbortHandler)
		}
		return true
	})
	p := operator.Program{Name: "test", Setup: begins, Needs: []string{"get pods"}}
	var said bytes.Buffer
	g.Expect(p.Main([]string{"--kubeconfig=" + file, "--listen-addr=127.0.0.1:0"}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring(`permission="create tokenreviews.authentication.k8s.io"`))
	g.Expect(said.String()).To(ContainSubstring("test: it has begun"))
}

// The page of a proxy is not an answer to the review, so the review is sent
// again.
func TestTheAnswerOfAProxyIsNotAMissingPermission(t *testing.T) {
	for _, page := range absenttest.Successes() {
		if page.Name == "an object of another kind" {
			continue // no gateway has the path of reviews
		}
		t.Run(strings.ReplaceAll(page.Name, "/", " "), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				c, err := cluster.New(page.Config(), nil)
				g.Expect(err).NotTo(HaveOccurred())
				err = operator.CheckPermissions(t.Context(), c, time.Minute, "list pods")
				g.Expect(err).To(MatchError(ContainSubstring(suspect.Guess)))
				g.Expect(errors.Is(err, operator.ErrPermission)).To(BeFalse())
			})
		})
	}
}
