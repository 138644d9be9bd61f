// Command demo rolls reboots across 12 nodes of a real API server, kills processes on the way, and says whether the
// operator has kept its promises.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/roll"
	"github.com/homeostat/homeostat/internal/proof/e2e"
)

func main() {
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
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "play on the cluster of this `file` instead of a new one; "+
		"nodes named node-01 and on are created there, and removed at the end")
	flags.IntVar(&options.Nodes, "nodes", roll.DefaultNodes, "`number` of nodes")
	flags.IntVar(&options.Max, "max-unavailable", roll.DefaultMax, "`number` of nodes that may be unavailable at once")
	flags.BoolVar(&options.Calm, "calm", false, "kill nothing")
	flags.BoolVar(&options.Table, "table", options.Table, "redraw a table instead of writing lines")
	flags.DurationVar(&options.Timeout, "timeout", roll.DefaultTimeout, "how long the roll may take")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if options.Kubeconfig == "" { // not that of $KUBECONFIG, which may be in use
		cluster, err := e2e.Start(ctx, &e2e.Options{Progress: out})
		if err != nil {
			return false, err
		}
		defer func() { _ = cluster.Stop() }() // The verdict stands by then.
		options.Kubeconfig = cluster.Kubeconfig()
	}
	verdict, err := roll.Run(ctx, options)
	if err != nil {
		return false, err
	}
	return verdict.Good(), verdict.Write(out)
}

// isTerminal tells whether a table can be redrawn on the standard output.
func isTerminal() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}
