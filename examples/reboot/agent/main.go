// Command agent reboots the node it runs on when the controller has granted it.
package main

import (
	"flag"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	host := &machine.Host{}
	options := &agent.Options{Machine: host}
	os.Exit(operator.Program{
		Name:     protocol.AgentManager,
		Usage:    protocol.AgentManager + ": reboots the node it runs on when the controller has granted it",
		Needs:    []string{"get,list,watch,patch nodes", "list pods", "create pods/eviction"},
		Replicas: operator.AllWork,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&options.Node, "node", os.Getenv("NODE_NAME"), "`name` of the node (default: $NODE_NAME)")
			fs.StringVar(&host.BootIDFile, "boot-id-file", machine.DefaultBootIDFile, "`file` that has the kernel's boot id")
			fs.StringVar(&host.Command, "reboot-command", machine.DefaultCommand, "`command` that reboots the machine")
			fs.IntVar(&host.Signal, "reboot-signal", 0,
				"send this `signal` to PID 1 instead of running a command; systemd reboots at 39 (SIGRTMIN+5)")
			fs.DurationVar(&options.Patience, "patience", agent.DefaultPatience,
				"how long to wait for a reboot before asking the machine again")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) { return setup(env, options) },
	}.Main(os.Args[1:], os.Stderr))
}

func setup(env operator.Env, options *agent.Options) ([]*reconcile.Controller, error) {
	client := env.Cluster.Client()
	options.Events = env.Events
	a, err := agent.New(client.CoreV1().Nodes(), client.CoreV1(), options)
	if err != nil {
		return nil, err
	}
	_, err = client.CoreV1().Nodes().Get(env.Context, options.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("finding node %q: there is none of that name: set --node or NODE_NAME to a name that "+
			"kubectl get nodes shows", options.Node)
	}
	if err != nil {
		return nil, fmt.Errorf("finding node %q: %w", options.Node, err)
	}
	return []*reconcile.Controller{a.Control()}, nil
}
