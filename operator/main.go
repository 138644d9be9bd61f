package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// Exit codes. A mistake in the Program itself ends with exitError, because no
// other command line would avoid it.
const (
	exitError = 1
	exitUsage = 2
)

// Main runs the program until SIGTERM or SIGINT, and returns its exit code: 0
// after a drain or if a signal arrives before the controllers run, 1 after an
// error or if p itself is wrong, 2 for a wrong command line. With --help,
// --version or --print-fencing-policy it only prints a text, and then returns 0
// if that succeeded. args does not include the program's name. Logs, errors,
// the help and the version are written to stderr. A line that stderr does not
// take within a second is not waited for, and further lines are dropped until
// stderr has taken it; the last lines wait for up to five seconds. Only a
// requested fencing policy is written to standard output.
//
// Call it once per process, because it sets klog's logger and the memory limit
// (see [LimitMemory]).
func (p Program) Main(args []string, stderr io.Writer) int {
	out := newOutput(stderr)
	stderr = out
	f, err := p.parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if _, ok := errors.AsType[usageError](err); ok {
		p.fail(stderr, f, err)
		return exitUsage
	}
	if err != nil {
		p.fail(stderr, f, err)
		return exitError
	}
	if f.version {
		_, _ = fmt.Fprintf(stderr, "%s %s\n", p.Name, Version())
		return 0
	}
	if f.printsPolicy() {
		return p.printPolicy(f, stderr)
	}
	if f.logsJSON() {
		out.asJSON()
	}
	logger := Logger(stderr, f.logsJSON(), f.verbosity)
	klog.SetLogger(logger)
	setVerbosity(f.verbosity)
	ctx, stop := signal.NotifyContext(logr.NewContext(context.Background(), logger), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal is not caught
	LimitMemory(ctx, logger)
	err = p.run(ctx, f, out)
	out.last()
	switch {
	case err == nil && ctx.Err() != nil:
		logger.Info("stopped after a signal") // a log without this line means that the process was killed
		return 0
	case err == nil:
		return 0
	case ctx.Err() != nil && isCancellation(err):
		logger.Info("stopped before the controllers ran", "reason", err.Error())
		return 0
	}
	p.fail(stderr, f, err)
	return exitError
}

// isCancellation reports whether every error in err is the cancellation of a
// context.
func isCancellation(err error) bool {
	switch wrapper := err.(type) { //nolint:errorlint // each layer is looked at
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(wrapper.Unwrap(), func(err error) bool { return !isCancellation(err) })
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			return isCancellation(inner)
		}
	}
	return errors.Is(err, context.Canceled)
}

// fail writes the error that ends the program as the last line or the last JSON
// record. Several mistakes are one line, too, because `kubectl logs --tail=1`
// and the message of a terminated container show the end.
func (p Program) fail(w io.Writer, f *flags, err error) {
	if f.logsJSON() {
		Logger(w, true, 0).Error(err, "the program failed, exiting", "program", p.Name)
		return
	}
	_, _ = fmt.Fprintf(w, "%s: %s\n", p.Name, strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
}

// printPolicy writes the fencing policy to standard output, and returns the
// exit code.
func (p Program) printPolicy(f *flags, stderr io.Writer) int {
	policy, err := p.FencingPolicy(p, f.policyFor)
	if err == nil {
		_, err = os.Stdout.WriteString(policy)
	}
	if err != nil {
		p.fail(stderr, f, err)
		return exitError
	}
	return 0
}

// run makes the controllers and runs them.
//
//	clusters ─▶ probes ─▶ permissions ─▶ Setup ─▶ kinds ─▶ controllers ─▶ last Events
func (p Program) run(ctx context.Context, f *flags, log *output) error {
	configs, files, err := p.connectAll(f)
	if err != nil {
		return err
	}
	compared := compareClocks(logr.FromContextOrDiscard(ctx), configs)
	unfenced, err := clustersOf(configs)
	if err != nil {
		return err
	}
	server := &Server{
		Address: f.listenAddr, Cluster: unfenced[first], Metrics: prometheus.NewRegistry(), Profiles: p.Profiles,
		ReadyWithoutCaches: p.ReadyWithoutCaches, MetricsAuth: f.metricsAuth,
		CertFile: f.certFile, KeyFile: f.keyFile,
	}
	return server.serve(ctx, func(ctx context.Context, handler *front) error {
		reportProblems(ctx, func() []inspect.Problem { return files[first].problems("kubeconfig") })
		reportProblems(ctx, compared.problems)
		reportProblems(ctx, log.problems)
		asks := asker{unfenced, f.startup, p.isOptional}
		if p.Needs != nil {
			needs := slices.DeleteFunc(p.needs(f), func(need permission) bool { return p.isOptional(need.cluster) })
			defer p.watchTenants(ctx, asks, needs)()
			required := slices.DeleteFunc(needs, func(need permission) bool { return need.mayBeMissing })
			if err := asks.check(ctx, required); err != nil {
				return err
			}
		}
		recorder, stopEvents, err := Recorder(ctx, unfenced[first], p.Name)
		if err != nil {
			return err
		}
		defer stopEvents()
		env := Env{Context: ctx, Events: recorder, Metrics: &registerer{inner: server.Metrics}, asker: asks}
		env, controllers, err := p.setUp(env, configs, f)
		if err != nil {
			return err
		}
		defer p.watchClusters(ctx, env, files, f)()
		return p.runBeside(ctx, env, func(ctx context.Context) error { return server.control(ctx, handler, controllers) })
	})
}

// runBeside runs the controllers, and p.Beside until they have drained. If
// p.Beside fails before that, runBeside stops the controllers. It returns the
// errors of both, joined.
func (p Program) runBeside(ctx context.Context, env Env, run func(context.Context) error) error {
	if p.Beside == nil {
		return run(ctx)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	serving, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	ended := make(chan error, 1)
	go func() {
		err := call(serving, "Program.Beside", besideGrace, func() error { return p.Beside(serving, env) })
		if serving.Err() != nil && isCancellation(err) {
			err = nil // it has ended because of the context
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

// setUp calls Setup with the completed env. It checks the controllers, and
// whether the servers have the kinds that they need.
func (p Program) setUp(env Env, configs map[string]*rest.Config, f *flags) (Env, []*reconcile.Controller, error) {
	env, err := p.replicate(env, env.asker.clusters[first], f)
	if err == nil {
		env, err = env.withClusters(configs)
	}
	if err != nil {
		return env, nil, err
	}
	starting(env.Context, "Setup", "Setup has not returned")
	var controllers []*reconcile.Controller
	err = call(env.Context, "Program.Setup", setupGrace, func() (err error) {
		controllers, err = p.Setup(env)
		return err
	})
	starting(env.Context, "Setup", "")
	if err != nil {
		return env, nil, err
	}
	err = env.Metrics.(*registerer).errs() //nolint:forcetypeassert // run has made it
	if err == nil {
		err = p.checkControllers(controllers, f)
	}
	if err == nil {
		err = p.checkReaders(env, controllers)
	}
	if err == nil {
		err = env.check(f.startup, controllers)
	}
	return env, controllers, err
}

// replicate returns env with the Leader or the Shards of this replica if
// --leader-elect is set, and otherwise env itself. home is the cluster of the
// Lease.
func (p Program) replicate(env Env, home *cluster.Cluster, f *flags) (Env, error) {
	if !f.leaderElect {
		return env, nil
	}
	client, err := leader.Client(home.Config())
	if err != nil {
		return env, err
	}
	lease := leader.Lease{Client: client, Namespace: f.leaseNamespace, Name: p.Name, Identity: f.identity}
	switch {
	case p.Replicas != Sharded:
		env.Leader, err = leader.New(lease, &f.durations)
	case p.Shards != nil:
		if env.Shards, err = p.Shards(lease, f.durations); env.Shards == nil && err == nil {
			err = option.Wrong("operator.Program.Shards", option.Set, "must return shards, or an error")
		}
	default:
		env.Shards, err = shard.New(lease, &shard.Options{Member: f.durations})
	}
	return env, err
}

// needs returns the permissions that the program requires with these flags, and
// the permissions that it can do without.
func (p Program) needs(f *flags) []permission {
	const leases = "leases." + coordinationv1.GroupName
	texts := slices.Clone(p.Needs)
	suffix := " in " + f.leaseNamespace
	switch {
	case !f.leaderElect:
	case p.Replicas == Sharded:
		texts = append(texts, "get,list,watch,create,update,delete "+leases+suffix)
	default: // RBAC cannot restrict create to a name
		texts = append(texts, "create "+leases+suffix, "get,update "+leases+" "+p.Name+suffix)
	}
	permissions, _ := parseNeeds(texts, p.clusterNames()) // validate has checked them
	want := func(consequence string, needs ...string) {
		wanted, _ := parseNeeds(needs, nil)
		for _, w := range wanted {
			w.consequence = consequence
			permissions = append(permissions, w)
		}
	}
	if !slices.ContainsFunc(permissions, permission.isOfEvents) {
		want("Events are not recorded", "create,patch events."+eventsv1.GroupName)
	}
	if f.listenAddr != "" {
		want("no token opens the debug page", "create tokenreviews."+authenticationv1.GroupName,
			"create subjectaccessreviews."+authorizationv1.GroupName)
	}
	return permissions
}

// connectAll returns, by cluster, the config and the kubeconfig that the config
// follows. If the first cluster is the cluster of the Pod, its kubeconfig is
// nil.
func (p Program) connectAll(f *flags) (map[string]*rest.Config, map[string]*kubeconfig, error) {
	configs, followed := map[string]*rest.Config{}, map[string]*kubeconfig{}
	files := map[string]string{first: f.kubeconfig}
	for name, file := range f.clusters {
		files[name] = *file
	}
	for name, file := range files {
		config, k, err := connect(file)
		switch {
		case err != nil && p.isOptional(name):
			k = unreadKubeconfig(name, file, err)
			config = k.config()
		case err != nil:
			return nil, nil, inCluster(name, err)
		}
		config.UserAgent = p.Name + "/" + revision()
		configs[name], followed[name] = config, k
	}
	return configs, followed, nil
}

// checkReaders returns an error for each optional cluster from which a required
// controller reads.
func (p Program) checkReaders(env Env, controllers []*reconcile.Controller) error {
	var errs []error
	required := map[string]bool{serverOf(env.Cluster): true}
	for _, c := range p.Clusters {
		server := serverOf(env.Clusters[c.Name])
		if !c.Optional {
			required[server] = true
		}
	}
	for _, c := range p.Clusters {
		server := serverOf(env.Clusters[c.Name])
		if reader := readers(controllers).required(server); reader != nil && !required[server] {
			errs = append(errs, option.Wrong("operator.Program.Setup", option.Set, "must set reconcile.Options.Optional of "+
				"controller %q, because it reads from cluster %s, which is optional", reader.Name(), c.Name))
		}
	}
	return errors.Join(errs...)
}

// checkControllers returns the first mistake in the controllers that Setup
// made, or nil.
func (p Program) checkControllers(controllers []*reconcile.Controller, f *flags) error {
	if i := slices.Index(controllers, nil); i >= 0 {
		return option.Wrong("operator.Program.Setup", option.Set,
			"must not return nil as controller [%d]: check the error that reconcile.New returned", i)
	}
	elects := slices.ContainsFunc(controllers, func(c *reconcile.Controller) bool { return c.Status(0).Elects })
	switch {
	case len(controllers) == 0:
		return option.Wrong("operator.Program.Setup", option.Set, "must return at least one controller")
	case p.Replicas == Sharded && len(controllers) > 1:
		return option.Wrong("operator.Program.Setup", option.Set,
			"must return one controller, whose keys the replicas share, and not %d", len(controllers))
	case f.leaderElect && !elects:
		return errors.New("--leader-elect is set, but no controller has the Leader or the Shards of its environment, " +
			"so no controller " +
			"could ever write: make their options with Env.Options")
	}
	return nil
}
