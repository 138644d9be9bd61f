// Command agent reboots the node it runs on when the controller has granted it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/cli"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

func main() {
	host := &machine.Host{}
	options := &agent.Options{Machine: host}
	var address string
	os.Exit(cli.Main(cli.Command{
		Name:  protocol.AgentManager,
		Usage: "reboots the node it runs on when the controller has granted it",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&options.Node, "node", os.Getenv("NODE_NAME"), "`name` of the node (default: $NODE_NAME)")
			fs.StringVar(&address, "listen-addr", ":8080", "`address` of probes and metrics; empty serves none")
			fs.StringVar(&host.BootIDFile, "boot-id-file", machine.DefaultBootIDFile, "`file` that has the kernel's boot id")
			fs.StringVar(&host.Command, "reboot-command", machine.DefaultCommand, "`command` that reboots the machine")
			fs.IntVar(&host.Signal, "reboot-signal", 0,
				"send this `signal` to PID 1 instead of running a command; systemd reboots at 39 (SIGRTMIN+5)")
			fs.DurationVar(&options.Patience, "patience", agent.DefaultPatience,
				"how long to wait for a reboot before asking the machine again")
		},
		Needs: func() []cli.Permission {
			return []cli.Permission{
				{Verb: "get", Resource: "nodes"},
				{Verb: "list", Resource: "nodes"},
				{Verb: "watch", Resource: "nodes"},
				{Verb: "patch", Resource: "nodes"},
			}
		},
		Run: func(ctx context.Context, config *rest.Config) error { return run(ctx, config, address, options) },
	}, os.Args[1:], os.Stderr))
}

func run(ctx context.Context, config *rest.Config, address string, options *agent.Options) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	recorder, stop, err := cli.Events(ctx, config, protocol.AgentManager)
	if err != nil {
		return err
	}
	defer stop()
	options.Events = recorder
	a, err := agent.New(client.CoreV1().Nodes(), options)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Get(ctx, options.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("finding node %q: there is none of that name: set --node or NODE_NAME to a name that "+
			"kubectl get nodes shows", options.Node)
	}
	if err != nil {
		return fmt.Errorf("finding node %q: %w", options.Node, err)
	}
	return cli.Serve(ctx, address, a.Control())
}
