package operator_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// region program

// owners is a whole program: os.Exit(owners().Main(os.Args[1:], os.Stderr)).
func owners() operator.Program {
	owner := "nobody"
	return operator.Program{
		Name:  "owners",
		Usage: "owners gives every namespace an owner.",
		Flags: func(fs *flag.FlagSet) { fs.StringVar(&owner, "owner", owner, "the `name` to give") },
		Needs: []string{"list,watch,patch namespaces"},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			namespaces := env.Cluster.Client().CoreV1().Namespaces()
			keep := func(ctx context.Context, r reconcile.Request[*corev1.Namespace]) (reconcile.Result, error) {
				namespace, ok := r.Object()
				if !ok || namespace.Annotations["owner"] != "" {
					return reconcile.Result{}, nil
				}
				_, err := patch.Merge(ctx, patch.ClusterScoped(namespaces), namespace, nil, func(edit *corev1.Namespace) {
					metav1.SetMetaDataAnnotation(&edit.ObjectMeta, "owner", owner)
				})
				return reconcile.Result{}, err
			}
			c, err := reconcile.New("owners", informer.For(namespaces, nil), reconcile.Func[*corev1.Namespace](keep), env.Options())
			return []*reconcile.Controller{c}, err
		},
	}
}

// endregion

// A program's own flags stand beside those that every program has.
func ExampleProgram_flags() {
	code := owners().Main([]string{"--owner=nobody", "--log-format=xml"}, os.Stdout)
	fmt.Println("exit code", code)
	// Output:
	// owners: --log-format is "xml": must be text or json
	// exit code 2
}

// A test of a Setup needs no flags and no kubeconfig.
func ExampleNewEnv() {
	env, err := operator.NewEnv(context.Background(), &rest.Config{Host: "https://api.example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	controllers, err := owners().Setup(env)
	fmt.Println(controllers[0].Name(), err)
	// Output: owners <nil>
}

// reviewing is an API server that grants permissions on one resource, and knows
// nothing else.
func reviewing(resource string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := authorizationv1.SelfSubjectAccessReview{}
		if !strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") || json.NewDecoder(r.Body).Decode(&review) != nil {
			http.NotFound(w, r)
			return
		}
		review.Status.Allowed = review.Spec.ResourceAttributes.Resource == resource
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}))
}

// A program with a main of its own can name missing permissions, too, before
// anything runs.
func ExampleCheckPermissions() {
	server := reviewing("pods")
	defer server.Close()
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	c, err := cluster.New(config, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(operator.CheckPermissions(ctx, c, time.Minute, "list,watch pods"))
	fmt.Println(operator.CheckPermissions(ctx, c, time.Minute, "get secrets tls in shop"))
	// Output:
	// <nil>
	// missing permission to get secrets tls in namespace shop: grant it, for example with a Role in shop
}

func ExampleConfig() {
	folder, err := os.MkdirTemp("", "kubeconfig")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "config")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	config, err := operator.Config(file)
	fmt.Println(config.Host, err)
	// Output: http://127.0.0.1:1 <nil>
}

// A flag like -v=1 decides how much is logged.
func ExampleLogger() {
	var out strings.Builder
	logger := operator.Logger(&out, true, 1)
	logger.V(1).Info("accepted the reboot", "node", "n1")
	logger.V(2).Info("looked at the node", "node", "n1")
	line := map[string]any{}
	fmt.Println(json.Unmarshal([]byte(out.String()), &line))
	fmt.Println(line["msg"], line["node"])
	// Output:
	// <nil>
	// accepted the reboot n1
}

// GOMEMLIMIT, if it is set, takes precedence over the container's limit.
func ExampleLimitMemory() {
	if err := os.Setenv("GOMEMLIMIT", "512MiB"); err != nil {
		fmt.Println(err)
	}
	defer os.Unsetenv("GOMEMLIMIT")
	operator.LimitMemory(context.Background(), logr.Discard())
	fmt.Println(os.Getenv("GOMEMLIMIT"))
	// Output: 512MiB
}

// stop sends the last Events before it returns.
func ExampleRecorder() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"kind":"Event","apiVersion":"events.k8s.io/v1"}`)
	}))
	defer server.Close()
	c, err := cluster.New(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	recorder, stop, err := operator.Recorder(logr.NewContext(context.Background(), logr.Discard()), c, "owners")
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Greeted", "Greet", "said hello to %s", pod.Name)
	stop()
	// Output: POST /apis/events.k8s.io/v1/namespaces/shop/events
}

// The metrics name no objects; everything else is for those whom the API server
// lets see it.
func ExampleAuthorize() {
	c, err := cluster.New(&rest.Config{Host: "https://api.example.com"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	authorize := operator.Authorize(c)
	fmt.Println(authorize(httptest.NewRequest(http.MethodGet, "/metrics", nil)))
	fmt.Println(authorize(httptest.NewRequest(http.MethodGet, "/debug/homeostat", nil)) == nil)
	// Output:
	// <nil>
	// false
}

// The version, the commit and the Go version, as the compiler recorded them.
func ExampleVersion() {
	version, rest, ok := strings.Cut(operator.Version(), " (commit ")
	_, toolchain, _ := strings.Cut(rest, ") ")
	fmt.Println(version != "", ok, strings.HasPrefix(toolchain, "go1."))
	// Output: true true true
}
