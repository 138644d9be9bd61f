// Command controller grants the nodes of a cluster leave to reboot, never more at once than their RebootGroup allows.
package main

import (
	"context"
	"flag"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/cli"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
)

func main() {
	options := &controller.Options{}
	var address string
	var lease election
	os.Exit(cli.Main(cli.Command{
		Name:  "reboot-controller",
		Usage: "grants nodes leave to reboot, never more at once than their RebootGroup allows",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&address, "listen-addr", ":8080", "`address` of probes and metrics; empty serves none")
			lease.flags(fs)
			fs.DurationVar(&options.StuckAfter, "stuck-after", controller.DefaultStuckAfter,
				"how long a slot may be held before the condition Stuck says so")
		},
		Needs: func() []cli.Permission { return append(needs(), lease.needs()...) },
		Run:   func(ctx context.Context, config *rest.Config) error { return run(ctx, config, address, lease, options) },
	}, os.Args[1:], os.Stderr))
}

func needs() []cli.Permission {
	group := api.GroupVersion().Group
	return []cli.Permission{
		{Verb: "get", Resource: "nodes"},
		{Verb: "list", Resource: "nodes"},
		{Verb: "watch", Resource: "nodes"},
		{Verb: "patch", Resource: "nodes"},
		{Verb: "get", Group: group, Resource: api.Resource},
		{Verb: "list", Group: group, Resource: api.Resource},
		{Verb: "watch", Group: group, Resource: api.Resource},
		{Verb: "create", Group: group, Resource: api.Resource},
		{Verb: "patch", Group: group, Resource: api.Resource},
		{Verb: "patch", Group: group, Resource: api.Resource, Subresource: "status"},
	}
}

func run(
	ctx context.Context, config *rest.Config, address string, lease election, options *controller.Options,
) error {
	recorder, stop, err := cli.Events(ctx, config, controller.DefaultName)
	if err != nil {
		return err
	}
	defer stop()
	options.Events = recorder
	if config, options.Leader, err = lease.join(config); err != nil {
		return err
	}
	nodes, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	groups, err := api.NewForConfig(config)
	if err != nil {
		return err
	}
	c, err := controller.New(nodes.CoreV1().Nodes(), groups, options)
	if err != nil {
		return err
	}
	return cli.Serve(ctx, address, c.Control())
}
