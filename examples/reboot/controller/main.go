// Command controller grants the nodes of a cluster leave to reboot, never more at once than their RebootGroup allows.
package main

import (
	"flag"
	"os"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	options := &controller.Options{}
	groups := api.Resource + "." + api.GroupVersion().Group
	os.Exit(operator.Program{
		Name:  controller.DefaultName,
		Usage: controller.DefaultName + ": grants nodes leave to reboot, never more at once than their RebootGroup allows",
		Needs: []string{
			"get,list,watch,patch nodes", "get,list,watch,create,patch " + groups, "patch " + groups + "/status",
		},
		Flags: func(fs *flag.FlagSet) {
			fs.DurationVar(&options.StuckAfter, "stuck-after", controller.DefaultStuckAfter,
				"how long a slot may be held before the condition Stuck says so")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) { return setup(env, options) },
	}.Main(os.Args[1:], os.Stderr))
}

func setup(env operator.Env, options *controller.Options) ([]*reconcile.Controller, error) {
	groups, err := api.NewClient(env.Cluster)
	if err != nil {
		return nil, err
	}
	options.Events, options.Leader = env.Events, env.Leader
	c, err := controller.New(env.Cluster.Client().CoreV1().Nodes(), groups, options)
	if err != nil {
		return nil, err
	}
	return []*reconcile.Controller{c.Control()}, nil
}
