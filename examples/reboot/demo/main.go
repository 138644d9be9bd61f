// Command demo reboots 12 nodes, kills processes in the meantime, and reports
// whether the operator has kept its promises. It uses a simulated API server, a
// real one that it starts, or an existing cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/roll"
	"github.com/homeostat/homeostat/examples/reboot/internal/program"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

func main() {
	if len(os.Args) > 1 { // the demo runs itself as the operator's programs
		switch os.Args[1] {
		case "controller":
			os.Exit(program.Controller().Main(os.Args[2:], os.Stderr))
		case "agent":
			os.Exit(program.Agent().Main(os.Args[2:], os.Stderr))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second interrupt is not caught.
	good, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
	if err != nil || !good {
		stop()
		os.Exit(1) //nolint:gocritic // stop was called.
	}
}

func run(ctx context.Context, args []string, out io.Writer) (good bool, err error) {
	options := &roll.Options{Out: out, Table: isTerminal()}
	useReal := false
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.BoolVar(&useReal, "real", false, "use a real API server, which the demo builds first, instead of a "+
		"simulated one")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "use the cluster of this `file`; "+
		"the demo creates the nodes node-01, node-02, … there, and deletes them at the end")
	flags.IntVar(&options.Nodes, "nodes", roll.DefaultNodes, "`number` of nodes")
	flags.IntVar(&options.Max, "max-unavailable", roll.DefaultMax, "`number` of nodes that may be unavailable at once")
	flags.BoolVar(&options.Calm, "calm", false, "kill no processes")
	flags.BoolVar(&options.Table, "table", options.Table, "redraw a table instead of writing lines")
	flags.DurationVar(&options.Timeout, "timeout", roll.DefaultTimeout, "how long the demo may take")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	if flags.NArg() > 0 {
		return false, fmt.Errorf("unexpected argument %q: the program accepts only flags", flags.Arg(0))
	}
	if useReal && options.Kubeconfig != "" {
		return false, errors.New("--real and --kubeconfig are both set: choose one")
	}
	if options.Program, err = os.Executable(); err != nil {
		return false, fmt.Errorf("finding the file of this program: %w", err)
	}
	stop, err := startServer(ctx, options, useReal)
	if err != nil {
		return false, err
	}
	defer func() { _ = stop() }() // the verdict does not depend on how the server ends
	verdict, err := roll.Run(ctx, options)
	if err != nil {
		return false, err
	}
	return verdict.Good(), verdict.Write(out)
}

// startServer starts an API server and sets the kubeconfig in o, unless o
// already has a kubeconfig. It does not use $KUBECONFIG, because people may be
// using its cluster. The returned function stops the server.
func startServer(ctx context.Context, o *roll.Options, useReal bool) (stop func() error, err error) {
	switch {
	case o.Kubeconfig != "":
		return func() error { return nil }, nil
	case useReal:
		cluster, err := e2e.Start(ctx, &e2e.Options{Progress: o.Out})
		if err != nil {
			return nil, err
		}
		o.Kubeconfig = cluster.Kubeconfig()
		return cluster.Stop, nil
	default:
		server, err := startSimulated()
		if err != nil {
			return nil, err
		}
		o.Kubeconfig, o.Simulated = server.kubeconfig, true
		fmt.Fprintf(o.Out, "started a simulated API server; to see its objects: kubectl --kubeconfig %s get "+
			"nodes,rebootgroups\n",
			server.kubeconfig)
		return server.stop, nil
	}
}

// isTerminal reports whether standard output is a terminal, on which a table
// can be redrawn.
func isTerminal() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}
