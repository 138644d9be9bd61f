package program

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/leader/shard"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

// Exit codes.
const (
	exitError = 1
	exitUsage = 2
)

// A Program is one process.
type Program struct {
	// Name stands in logs, in the user agent, in events and on the Lease.
	Name string
	// Usage is the first line of --help: what the program does.
	Usage string
	// Flags adds the program's own flags; nil adds none.
	Flags func(*flag.FlagSet)
	// Needs are the permissions without which the program ends at its start,
	// such as "list,watch pods", "patch widgets.example.com/status" and "delete
	// configmaps of-this-name"; with --leader-elect those on its Leases are added.
	// nil asks for none.
	Needs []string
	// Alone leaves out --leader-elect: each process has work of its own, such as
	// that of its node.
	Alone bool
	// Sharded lets all replicas work with --leader-elect, each on its part of
	// the keys, instead of one: Env has Shards then, and no Leader.
	Sharded bool
	// Setup makes the controllers; nothing runs yet.
	Setup func(env Env) ([]*reconcile.Controller, error)
}

// An Env is what controllers are made from.
type Env struct {
	// Context ends when the process is told to stop. It is for what Setup asks
	// the server.
	Context context.Context
	// Config is for everything but Events. What reconciles write with it is seen,
	// see package cluster. With --leader-elect, writes are refused once the Lease
	// may have expired.
	Config *rest.Config
	// Events sends events.
	Events events.EventRecorder
	// Leader is nil without --leader-elect.
	Leader reconcile.Leader
	// Shards are nil without --leader-elect and Program.Sharded.
	Shards shard.Assignment
	// Metrics takes collectors of the program's own.
	Metrics prometheus.Registerer
}

type flags struct {
	kubeconfig  string
	logFormat   string
	verbosity   int
	listenAddr  string
	leaderElect bool
	namespace   string
	identity    string
	startup     time.Duration
}

// Main runs the program and returns its exit code. Args are without the
// program's name.
func (p Program) Main(args []string, stderr io.Writer) int {
	f, err := p.parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		p.say(stderr, err)
		return exitUsage
	}
	logger := f.logger(stderr)
	klog.SetLogger(logger)
	ctx, stop := signal.NotifyContext(logr.NewContext(context.Background(), logger), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal is not caught
	err = p.reach(ctx, f)
	if err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) { // stopped before it had begun
		p.say(stderr, err)
		return exitError
	}
	return 0
}

func (p Program) parse(args []string, stderr io.Writer) (*flags, error) {
	f := &flags{}
	fs := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		_, _ = fmt.Fprintln(stderr, cmp.Or(p.Usage, "Usage of "+p.Name+":"))
		fs.PrintDefaults()
	}
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` that names the cluster (default: the cluster this runs in, "+
		"else $KUBECONFIG or ~/.kube/config)")
	fs.StringVar(&f.logFormat, "log-format", "text", "`format` of the logs: text or json")
	fs.IntVar(&f.verbosity, "v", 0, "log more with a higher `level`")
	fs.StringVar(&f.listenAddr, "listen-addr", ":8080", "`address` of /livez, /readyz, /metrics and "+
		"/debug/homeostat; empty serves none")
	if !p.Alone {
		f.leaseFlags(fs, p.Sharded)
	}
	if p.Needs != nil {
		fs.DurationVar(&f.startup, "startup-timeout", time.Minute, "how long to wait for the API server at the start")
	}
	if p.Flags != nil {
		p.Flags(fs)
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	var faults []error
	if fs.NArg() > 0 {
		faults = append(faults, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		faults = append(faults, fmt.Errorf("--log-format is %q: must be text or json", f.logFormat))
	}
	if p.Needs != nil && f.startup <= 0 {
		faults = append(faults, fmt.Errorf("--startup-timeout is %v: must be more than 0", f.startup))
	}
	return f, errors.Join(faults...)
}

func (f *flags) logger(out io.Writer) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-f.verbosity)}
	if f.logFormat == "json" {
		return logr.FromSlogHandler(slog.NewJSONHandler(out, options))
	}
	return logr.FromSlogHandler(slog.NewTextHandler(out, options))
}

// reach runs the program on the cluster that the flags name.
func (p Program) reach(ctx context.Context, f *flags) error {
	config, err := configOf(f.kubeconfig)
	if err != nil {
		return err
	}
	c, err := cluster.New(config, &cluster.Options{UserAgent: p.Name})
	if err != nil {
		return err
	}
	return p.run(ctx, c.Config(), f)
}

// run runs the controllers and answers about them.
func (p Program) run(ctx context.Context, config *rest.Config, f *flags) error {
	if p.Needs != nil {
		if err := preflight(ctx, config, p.permissions(f), f.startup); err != nil {
			return err
		}
	}
	recorder, stopEvents, err := Recorder(ctx, config, p.Name)
	if err != nil {
		return err
	}
	defer stopEvents()
	registry := prometheus.NewRegistry()
	env := Env{Context: ctx, Config: config, Events: recorder, Metrics: registry}
	if f.leaderElect {
		if err := p.replicate(&env, f); err != nil {
			return err
		}
	}
	controllers, err := p.Setup(env)
	if err != nil {
		return err
	}
	if f.listenAddr == "" {
		return reconcile.RunAll(ctx, controllers...)
	}
	return serve(ctx, config, f.listenAddr, registry, controllers)
}

// serve runs the controllers, and the status server until they have drained.
func serve(
	ctx context.Context, config *rest.Config, address string, registry *prometheus.Registry,
	controllers []*reconcile.Controller,
) error {
	err := errors.Join(
		registry.Register(metrics.New(controllers...)),
		registry.Register(metrics.Requests()),
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	access, err := Access(config)
	if err != nil {
		return err
	}
	handler, err := status.New(&status.Options{Controllers: controllers, Gatherer: registry, Authorize: access})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	serving, done := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		defer stop() // without probes the kubelet would end it anyway
		ended <- status.Serve(serving, address, handler)
	}()
	err = reconcile.RunAll(working, controllers...)
	done()
	return errors.Join(err, <-ended)
}

func (p Program) say(out io.Writer, err error) {
	_, _ = fmt.Fprintf(out, "%s: %v\n", p.Name, err) // there is no other place to say it
}
