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
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/cluster"
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
	// Flags adds the program's own flags.
	Flags func(*flag.FlagSet)
	// Needs are the permissions without which the program ends at its start,
	// such as "list,watch pods", "patch widgets.example.com/status" and "delete
	// configmaps of-this-name". With --leader-elect those on its Leases are added.
	// Nil checks none.
	Needs []string
	// Replicas is what several replicas do. Defaults to [OneLeads].
	Replicas Replicas
	// Clusters are the names of further clusters. Each adds a flag
	// --<name>-kubeconfig, and is in [Env.Clusters]. The Lease and the Events are
	// in the first cluster; the writes to all are fenced.
	Clusters []string
	// Profiles is the handler returned by profiles.Handler (package status/profiles):
	// it is served on /debug/pprof/ to those who may see the debug page. Defaults to
	// none.
	Profiles http.Handler
	// Setup makes the controllers; nothing runs yet. Requests take [Env.Context].
	Setup func(env Env) ([]*reconcile.Controller, error)
}

// Replicas is what the replicas of a program do with --leader-elect.
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

// Env is what controllers are made from. Tests of a Setup make one by hand.
type Env struct {
	// Context ends when the process is told to stop. It carries the logger.
	Context context.Context
	// Cluster is the cluster that the flags name. What a reconcile writes through it
	// is seen. With --leader-elect writes are refused unless this replica leads, and
	// so in Setup.
	Cluster *cluster.Cluster
	// Clusters are those of Program.Clusters, by name.
	Clusters map[string]*cluster.Cluster
	// Events records Kubernetes Events in the cluster that the flags name, reported
	// by Program.Name.
	Events events.EventRecorder
	// Leader is nil without --leader-elect.
	Leader reconcile.Leader
	// Shards is nil without --leader-elect and [AllShare].
	Shards shard.Assignment
	// Metrics takes collectors of the program's own; /metrics serves them.
	Metrics prometheus.Registerer
}

// Options returns new options of a controller: with the environment's Leader,
// Shards and Events, and the defaults otherwise.
func (e Env) Options() *reconcile.Options {
	return &reconcile.Options{Leader: e.Leader, Shards: e.Shards, Events: e.Events}
}

// Main runs the program until SIGTERM or SIGINT and returns its exit code: 0
// after a drain, 1 after an error, 2 for a wrong command line. args are without
// the program's name; logs and errors are written to stderr.
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
	case ctx.Err() != nil && errors.Is(err, context.Canceled) && !errors.Is(err, reconcile.ErrGraceExpired):
		logger.Info("stopped before it had begun", "reason", err.Error())
		return 0
	}
	p.say(stderr, err)
	return exitError
}

// say writes an error, or the version if err is nil. There is no other place for it.
func (p Program) say(out io.Writer, err error) {
	if err == nil {
		_, _ = fmt.Fprintf(out, "%s %s\n", p.Name, Version())
		return
	}
	_, _ = fmt.Fprintf(out, "%s: %v\n", p.Name, err)
}

// run makes the controllers and runs them.
func (p Program) run(ctx context.Context, f *flags) error {
	config, err := p.connect(f.kubeconfig)
	if err != nil {
		return err
	}
	home, err := cluster.New(config, nil)
	if err != nil {
		return err
	}
	if p.Needs != nil {
		if err := checkPermissions(ctx, home, f.startup, p.needs(f)); err != nil {
			return err
		}
	}
	recorder, stopEvents, err := Recorder(ctx, home, p.Name)
	if err != nil {
		return err
	}
	defer stopEvents()
	registry := prometheus.NewRegistry()
	env := Env{Context: ctx, Events: recorder, Metrics: registry}
	if err := p.replicate(&env, home, f); err != nil {
		return err
	}
	if err := p.reach(&env, config, f); err != nil {
		return err
	}
	controllers, err := p.Setup(env)
	if err != nil {
		return err
	}
	if err := p.complain(controllers, f); err != nil {
		return err
	}
	if err := persist(ctx, home, f.startup, env.check); err != nil {
		return err
	}
	server := &Server{Address: f.listenAddr, Cluster: home, Metrics: registry, Profiles: p.Profiles}
	return server.Run(ctx, controllers...)
}

// connect returns the config of a kubeconfig, in this program's name.
func (p Program) connect(kubeconfig string) (*rest.Config, error) {
	config, err := Config(kubeconfig)
	if err == nil {
		config.UserAgent = p.Name + "/" + revision()
	}
	return config, err
}

// replicate makes env that of one of several replicas.
func (p Program) replicate(env *Env, home *cluster.Cluster, f *flags) (err error) {
	if !f.leaderElect {
		return nil
	}
	lease := leader.Lease{
		Client: home.Client().CoordinationV1(), Namespace: f.namespace, Name: p.Name, Identity: f.identity,
	}
	if p.Replicas == AllShare {
		env.Shards, err = shard.New(lease, nil)
	} else {
		env.Leader, err = leader.New(lease, nil)
	}
	return err
}

// reach makes the clusters of env.
func (p Program) reach(env *Env, home *rest.Config, f *flags) (err error) {
	if env.Cluster, err = env.fenced(home); err != nil {
		return err
	}
	env.Clusters = map[string]*cluster.Cluster{}
	for _, name := range p.Clusters {
		config, err := p.connect(*f.clusters[name])
		if err == nil {
			env.Clusters[name], err = env.fenced(config)
		}
		if err != nil {
			return fmt.Errorf("cluster %s of --%s: %w", name, clusterFlag(name), err)
		}
	}
	return nil
}

// complain returns what is wrong with the controllers that Setup made.
func (p Program) complain(controllers []*reconcile.Controller, f *flags) error {
	elects := slices.ContainsFunc(controllers, func(c *reconcile.Controller) bool { return c.Status(0).Elects })
	switch {
	case len(controllers) == 0:
		return errors.New("field Setup returned no controllers")
	case p.Replicas == AllShare && len(controllers) > 1:
		return fmt.Errorf("field Setup returned %d controllers: must be one, whose keys the replicas share", len(controllers))
	case f.leaderElect && !elects:
		return errors.New("with --leader-elect no controller has the Leader or the Shards of its environment, so none " +
			"could ever write: make their options with Env.Options")
	}
	return nil
}

// fencer refuses writes after the end of a leadership.
type fencer interface {
	Fence(config *rest.Config) *rest.Config
}

var (
	_ fencer = (*leader.Elector)(nil)
	_ fencer = (*shard.Shards)(nil)
)

// fenced returns the cluster of config, to which only the leader can write.
func (e Env) fenced(config *rest.Config) (*cluster.Cluster, error) {
	for _, by := range []any{e.Leader, e.Shards} {
		if f, ok := by.(fencer); ok {
			config = f.Fence(config)
		}
	}
	return cluster.New(config, nil)
}

// check asks every server whether it has the kinds that Setup made clients of.
func (e Env) check(ctx context.Context) error {
	errs := []error{e.Cluster.Check(ctx)}
	for name, c := range e.Clusters {
		if err := c.Check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("cluster %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
