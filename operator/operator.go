package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile"
)

// Exit codes.
const (
	exitError = 1
	exitUsage = 2
)

// Program is one process of controllers. Its zero fields mean the defaults; Name
// and Setup are required.
type Program struct {
	// Name is in logs, in the user agent, in Events and on the Lease. It is a DNS
	// label, such as "website-operator".
	Name string
	// Usage is the first line of --help: what the program does. Defaults to
	// "Usage of" and the name.
	Usage string
	// Flags adds the program's own flags. They are parsed before Setup is called. One
	// that every program has is an error. Defaults to none.
	Flags func(*flag.FlagSet)
	// Needs are the permissions without which the program ends at its start. A need
	// is verbs, a resource, perhaps a name, a namespace and one of Clusters:
	//
	//	"list,watch pods"                      in all namespaces
	//	"patch widgets.example.com/status"     a group and a subresource
	//	"get,update configmaps settings"       of one name
	//	"get secrets in kube-system"           in one namespace
	//	"create jobs.batch in ci on west"      in the cluster west of Clusters
	//
	// With --leader-elect those on its Leases are added. Setup asks for permissions
	// that the program can do without by [Env.CheckPermissions]. Those of Events and of
	// the debug page are asked for, too: one that is missing is logged. Nil checks none.
	Needs []string
	// Replicas is the division of work among replicas. Defaults to [OneLeads].
	Replicas Replicas
	// Shards returns the shards that [AllShare] divides the keys into, such as shards with other options,
	// or [shard.NewRanges]: then each replica lists, watches and caches the objects of its
	// own namespaces only, and a reconcile finds in the caches what is in its key's
	// namespace, and all of the kinds whose informers have Options.Whole. Defaults to
	// [shard.New].
	Shards func(lease leader.Lease) (shard.Assignment, error)
	// Clusters are the names of further clusters, DNS labels. Each adds a flag
	// --<name>-kubeconfig, and is in [Env.Clusters]. The Lease and the Events are
	// in the first cluster; the writes to all are fenced. Defaults to none.
	Clusters []string
	// FencingPolicy is [FencingPolicy]: with it --print-fencing-policy prints the admission
	// policy by which the API server itself refuses what a replica without the Lease writes,
	// and exits. Defaults to none, which leaves the flag and 31 kB out of the program.
	FencingPolicy func(p Program, serviceAccount string) (string, error)
	// Profiles is the handler returned by profiles.Handler (package status/profiles):
	// it is served on /debug/pprof/ to those who may see the debug page. Defaults to
	// none.
	Profiles http.Handler
	// Setup makes the controllers; nothing runs yet but /livez and /readyz, which says
	// that the program is starting. Requests take [Env.Context]. A kind that the program
	// can do without is checked here, by cluster.Kind's Check: all others must be there.
	// An error ends the program with exit code 1. It is called once.
	Setup func(env Env) ([]*reconcile.Controller, error)
	// Beside runs while the controllers do, in every replica, such as the server of
	// webhooks. It is called after Setup. ctx ends when the controllers have drained;
	// an error before ends the program. Defaults to none.
	Beside func(ctx context.Context, env Env) error
}

// Replicas is the division of work among the replicas of a program with --leader-elect.
type Replicas uint8

const (
	// OneLeads lets one replica work, while the others stand by with full caches.
	OneLeads Replicas = iota
	// AllShare lets all replicas work, each on its part of the keys. The program
	// has one controller then.
	AllShare
	// AllWork leaves out --leader-elect: each process has work of its own, such as
	// that of its node.
	AllWork
)

// Main runs the program until SIGTERM or SIGINT and returns its exit code: 0
// after a drain, 1 after an error, 2 for a wrong command line. args are without
// the program's name; logs and errors are written to stderr, and only a policy that is
// asked for to standard output.
func (p Program) Main(args []string, stderr io.Writer) int {
	f, err := p.parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		p.say(stderr, err)
		return exitUsage
	}
	if f.version {
		p.say(stderr, nil)
		return 0
	}
	if f.policyFor != "" {
		return p.printPolicy(f.policyFor, stderr)
	}
	logger := Logger(stderr, f.logFormat == "json", f.verbosity)
	klog.SetLogger(logger)
	verbose(f.verbosity)
	ctx, stop := signal.NotifyContext(logr.NewContext(context.Background(), logger), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal is not caught
	LimitMemory(logger)
	err = p.run(ctx, f)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && isCancellation(err):
		logger.Info("stopped before it had begun", "reason", err.Error())
		return 0
	}
	p.say(stderr, err)
	return exitError
}

// isCancellation reports whether err says nothing but that a context was cancelled.
func isCancellation(err error) bool {
	switch of := err.(type) { //nolint:errorlint // each layer is looked at
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(of.Unwrap(), func(err error) bool { return !isCancellation(err) })
	case interface{ Unwrap() error }:
		if inner := of.Unwrap(); inner != nil {
			return isCancellation(inner)
		}
	}
	return errors.Is(err, context.Canceled)
}

// say writes an error, or the version if err is nil. There is no other place for it.
func (p Program) say(out io.Writer, err error) {
	if err == nil {
		_, _ = fmt.Fprintf(out, "%s %s\n", p.Name, Version())
		return
	}
	_, _ = fmt.Fprintf(out, "%s: %v\n", p.Name, err)
}

// printPolicy writes the policy to standard output, and returns the exit code.
func (p Program) printPolicy(serviceAccount string, stderr io.Writer) int {
	policy, err := p.FencingPolicy(p, serviceAccount)
	if err == nil {
		_, err = os.Stdout.WriteString(policy)
	}
	if err != nil {
		p.say(stderr, err)
		return exitError
	}
	return 0
}

// run makes the controllers and runs them.
//
//	clusters ─▶ probes ─▶ permissions ─▶ Setup ─▶ kinds ─▶ controllers ─▶ last Events
func (p Program) run(ctx context.Context, f *flags) error {
	configs, err := p.connectAll(f)
	if err != nil {
		return err
	}
	unfenced, err := clustersOf(configs)
	if err != nil {
		return err
	}
	server := &Server{
		Address: f.listenAddr, Cluster: unfenced[first], Metrics: prometheus.NewRegistry(), Profiles: p.Profiles,
	}
	return server.serve(ctx, func(ctx context.Context, handler *front) error {
		asks := asker{unfenced, f.startup}
		if p.Needs != nil {
			if err := asks.check(ctx, p.needs(f)); err != nil {
				return err
			}
		}
		recorder, stopEvents, err := Recorder(ctx, unfenced[first], p.Name)
		if err != nil {
			return err
		}
		defer stopEvents()
		env := Env{Context: ctx, Events: recorder, Metrics: &registerer{to: server.Metrics}, asks: asks}
		env, controllers, err := p.setUp(env, configs, f)
		if err != nil {
			return err
		}
		return p.beside(ctx, env, func(ctx context.Context) error { return server.control(ctx, handler, controllers) })
	})
}

// beside runs the controllers, and p.Beside until they have drained.
func (p Program) beside(ctx context.Context, env Env, run func(context.Context) error) error {
	if p.Beside == nil {
		return run(ctx)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	serving, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	ended := make(chan error, 1)
	go func() {
		err := p.Beside(serving, env)
		if serving.Err() != nil && isCancellation(err) {
			err = nil // it ended as it was told to
		}
		if err != nil {
			stop()
		}
		ended <- err
	}()
	err := run(working)
	done()
	return errors.Join(err, <-ended)
}

// setUp completes env and makes its controllers.
func (p Program) setUp(env Env, configs map[string]*rest.Config, f *flags) (Env, []*reconcile.Controller, error) {
	env, err := p.replicate(env, env.asks.clusters[first], f)
	if err == nil {
		env, err = env.reach(configs)
	}
	if err != nil {
		return env, nil, err
	}
	starting(env.Context, "Setup has not returned")
	controllers, err := p.Setup(env)
	if refused := env.Metrics.(*registerer).errs(); err == nil { //nolint:forcetypeassert // run has made it
		err = refused
	}
	if err == nil {
		err = p.complain(controllers, f)
	}
	if err == nil {
		err = env.check(f.startup)
	}
	return env, controllers, err
}

// connectAll returns the config of each cluster by its name.
func (p Program) connectAll(f *flags) (map[string]*rest.Config, error) {
	configs := map[string]*rest.Config{}
	files := map[string]string{first: f.kubeconfig}
	for name, file := range f.clusters {
		files[name] = *file
	}
	for name, file := range files {
		config, err := Config(file)
		if err != nil {
			return nil, inCluster(name, err)
		}
		config.UserAgent = p.Name + "/" + revision()
		configs[name] = config
	}
	return configs, nil
}

// complain returns what is wrong with the controllers that Setup made.
func (p Program) complain(controllers []*reconcile.Controller, f *flags) error {
	if i := slices.Index(controllers, nil); i >= 0 {
		return option.Wrong("operator.Program.Setup", option.Set,
			"must not return nil as controller [%d]: reconcile.New has returned an error", i)
	}
	elects := slices.ContainsFunc(controllers, func(c *reconcile.Controller) bool { return c.Status(0).Elects })
	switch {
	case len(controllers) == 0:
		return option.Wrong("operator.Program.Setup", option.Set, "must return at least one controller")
	case p.Replicas == AllShare && len(controllers) > 1:
		return option.Wrong("operator.Program.Setup", option.Set,
			"must return one controller, whose keys the replicas share, and not %d", len(controllers))
	case f.leaderElect && !elects:
		return errors.New("with --leader-elect no controller has the Leader or the Shards of its environment, so none " +
			"could ever write: make their options with Env.Options")
	}
	return nil
}
