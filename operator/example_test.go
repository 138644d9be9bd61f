package operator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status/profiles"
)

// labeller returns a controller that labels every namespace.
func labeller(c *cluster.Cluster, options *reconcile.Options) ([]*reconcile.Controller, error) {
	client := patch.ClusterScoped(c.Client().CoreV1().Namespaces())
	namespaces := informer.For(c.Client().CoreV1().Namespaces(), nil)
	controller, err := reconcile.New("labeller", namespaces, reconcile.Func[*corev1.Namespace](
		func(ctx context.Context, request reconcile.Request[*corev1.Namespace]) (reconcile.Result, error) {
			namespace, exists := request.Object()
			if !exists {
				return reconcile.Result{}, nil
			}
			_, err := patch.Merge(ctx, client, namespace, nil, func(edit *corev1.Namespace) {
				metav1.SetMetaDataLabel(&edit.ObjectMeta, "labelled", "yes")
			})
			return reconcile.Result{}, err
		}), options)
	return []*reconcile.Controller{controller}, err
}

// A whole program. --help lists its flags, and --version prints the version of
// its module with the commit.
func ExampleProgram() {
	program := operator.Program{
		Name:  "labeller",
		Usage: "labeller: labels every namespace",
		Needs: []string{"list,watch,patch namespaces"},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			return labeller(env.Cluster, env.Options())
		},
	}
	// os.Exit(program.Main(os.Args[1:], os.Stderr))
	code := program.Main([]string{"--leader-elect", "please"}, os.Stdout)
	fmt.Println("exit code", code)
	// Output:
	// labeller: unexpected argument "please"
	// exit code 2
}

// The version is the one that the Go toolchain has put into the program.
func ExampleProgram_version() {
	program := operator.Program{Name: "labeller", Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
		return labeller(env.Cluster, env.Options())
	}}
	var said bytes.Buffer
	code := program.Main([]string{"--version"}, &said)
	fmt.Println(code, said.String() == "labeller "+operator.Version()+"\n")
	fmt.Println(strings.Contains(said.String(), "(commit "))
	// Output:
	// 0 true
	// true
}

// Profiles are served on /debug/pprof/ to those whose token may get that path:
//
//	curl -H "Authorization: Bearer $(kubectl create token me)" -o heap http://…:8080/debug/pprof/heap
func ExampleProgram_profiles() {
	program := operator.Program{
		Name:     "labeller",
		Profiles: profiles.Handler(),
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			return labeller(env.Cluster, env.Options())
		},
	}
	fmt.Println(program.Main([]string{"--log-format=xml"}, os.Stdout))
	// Output:
	// labeller: --log-format is "xml": must be text or json
	// 2
}

// --print-fencing-policy prints the policy; a test of the program can look at
// it.
func ExampleFencingPolicy() {
	program := operator.Program{
		Name:          "labeller",
		Needs:         []string{"list,watch,patch namespaces"},
		FencingPolicy: operator.FencingPolicy,
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			return labeller(env.Cluster, env.Options())
		},
	}
	policy, err := program.FencingPolicy(program, "tools/labeller-account")
	if err != nil {
		fmt.Println(err)
		return
	}
	comment, manifest, _ := strings.Cut(policy, "\n")
	fmt.Println(comment)
	fmt.Println(strings.Contains(manifest, `request.userInfo.username == "system:serviceaccount:tools:labeller-account"`))
	fmt.Println(strings.Contains(manifest, "- namespaces\n"), strings.Contains(manifest, "name: labeller.tools\n"))
	// Output:
	// # The API server refuses what a replica of labeller writes with the account tools/labeller-account unless it holds the Lease.
	// true
	// true true
}

// Further clusters have flags of their own, and needs may be on one of them.
// The writes to all of them are fenced by the Lease in the first one. An
// optional cluster may be unreachable: its controllers wait for it, and the
// others work.
func ExampleProgram_clusters() {
	program := operator.Program{
		Name:     "labeller",
		Clusters: []operator.Cluster{{Name: "west", Optional: true}},
		Needs:    []string{"list,watch,patch namespaces", "list,watch,patch namespaces on west"},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			options := env.Options()
			options.Optional = true
			return labeller(env.Clusters["west"], options)
		},
	}
	fmt.Println(program.Main([]string{"--kubeconfig=east.yaml"}, os.Stdout))
	// Output:
	// labeller: --west-kubeconfig is empty: name the kubeconfig of cluster west
	// 2
}

// Setup checks permissions that the program can do without. Here a test calls
// Setup, on a server that grants nothing about Secrets.
func ExampleEnv_CheckPermissions() {
	setup := func(env operator.Env) ([]*reconcile.Controller, error) {
		err := env.CheckPermissions("list secrets in kube-system")
		if errors.Is(err, operator.ErrPermission) {
			fmt.Println("without secrets:", err)
		} else if err != nil {
			return nil, err
		}
		return labeller(env.Cluster, env.Options())
	}
	server := newFixture()
	server.refused = "secrets"
	reached, err := cluster.New(server.config(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	controllers, err := setup(operator.Env{Context: context.Background(), Cluster: reached})
	fmt.Println(len(controllers), err)
	// Output:
	// without secrets: missing permission to list secrets in namespace kube-system: grant it, for example with a Role in kube-system
	// the account is labeller
	// 1 <nil>
}

// ownMain is a program with a main of its own, which uses the pieces that it
// wants. config is the result of operator.Config(*kubeconfig).
func ownMain(ctx context.Context, config *rest.Config, stderr io.Writer) error {
	log := operator.Logger(stderr, true, 0)
	ctx = logr.NewContext(ctx, log)
	operator.LimitMemory(ctx, log) // GOMEMLIMIT, if the container has a limit and the variable is not set
	reached, err := cluster.New(config, &cluster.Options{UserAgent: "labeller"})
	if err != nil {
		return err
	}
	recorder, stopEvents, err := operator.Recorder(ctx, reached, "labeller")
	if err != nil {
		return err
	}
	defer stopEvents()
	server := &operator.Server{Address: "127.0.0.1:0", Cluster: reached, Profiles: profiles.Handler()}
	return server.RunSetup(ctx, func(ctx context.Context) ([]*reconcile.Controller, error) {
		err := operator.CheckPermissions(ctx, reached, time.Minute, "list,watch,patch namespaces")
		if err != nil {
			return nil, err
		}
		return labeller(reached, &reconcile.Options{Events: recorder})
	})
}

// A program that uses the parts. It handles signals itself.
func ExampleServer() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := newFixture()
	ended := make(chan error, 1)
	go func() { ended <- ownMain(ctx, server.config(), io.Discard) }()
	fmt.Println("labels:", server.labelsOf(ctx, "default"))
	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// labels: map[labelled:yes]
	// ended: <nil>
}

// Controllers that are made already, with the probes and the page.
func ExampleServer_Run() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	simulated := newFixture()
	reached, err := cluster.New(simulated.config(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	controllers, err := labeller(reached, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &operator.Server{Address: "127.0.0.1:0", Cluster: reached}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, controllers...) }()
	fmt.Println("labels:", simulated.labelsOf(ctx, "default"))
	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// labels: map[labelled:yes]
	// ended: <nil>
}
