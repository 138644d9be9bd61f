package cli

import (
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
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Exit codes.
const (
	exitError = 1
	exitUsage = 2
)

// A Command is one program.
type Command struct {
	// Name and Usage stand in the help.
	Name, Usage string
	// Flags adds the program's own flags; nil adds none.
	Flags func(*flag.FlagSet)
	// Needs returns the permissions without which the program does not start; it is
	// called when the flags are known.
	Needs func() []Permission
	// Run does the work until ctx ends.
	Run func(ctx context.Context, config *rest.Config) error
}

// common are the flags of every program.
type common struct {
	kubeconfig string
	logFormat  string
	verbosity  int
	startup    time.Duration
}

func (f *common) register(fs *flag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` that names the cluster (default: the cluster this runs in, "+
		"else $KUBECONFIG or ~/.kube/config)")
	fs.StringVar(&f.logFormat, "log-format", "text", "`format` of the logs: text or json")
	fs.IntVar(&f.verbosity, "v", 0, "log more with a higher `level`")
	fs.DurationVar(&f.startup, "startup-timeout", time.Minute, "how long to wait for the API server at the start")
}

// Main runs the command and returns its exit code. Args are without the
// program's name.
func Main(c Command, args []string, stderr io.Writer) int {
	f, err := parse(c, args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		say(stderr, c, err)
		return exitUsage
	}
	logger := f.logger(stderr)
	klog.SetLogger(logger)
	ctx, stop := signal.NotifyContext(logr.NewContext(context.Background(), logger), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal is not caught.
	if err := start(ctx, c, f); err != nil {
		say(stderr, c, err)
		return exitError
	}
	return 0
}

func parse(c Command, args []string, stderr io.Writer) (*common, error) {
	f := &common{}
	fs := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		say(stderr, c, errors.New(c.Usage))
		fs.PrintDefaults()
	}
	f.register(fs)
	if c.Flags != nil {
		c.Flags(fs)
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
	if f.startup <= 0 {
		faults = append(faults, fmt.Errorf("--startup-timeout is %v: must be more than 0", f.startup))
	}
	return f, errors.Join(faults...)
}

func (f *common) logger(out io.Writer) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-f.verbosity)}
	if f.logFormat == "json" {
		return logr.FromSlogHandler(slog.NewJSONHandler(out, options))
	}
	return logr.FromSlogHandler(slog.NewTextHandler(out, options))
}

func start(ctx context.Context, c Command, f *common) error {
	config, err := Config(f.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = c.Name
	if err := preflight(ctx, config, c.Needs(), f.startup); err != nil {
		if ctx.Err() != nil {
			return nil // Asked to stop before it began.
		}
		return err
	}
	return c.Run(ctx, config)
}

func say(out io.Writer, c Command, err error) {
	_, _ = fmt.Fprintf(out, "%s: %v\n", c.Name, err) // There is no other place to say it.
}
