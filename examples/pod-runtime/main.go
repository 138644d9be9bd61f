// Command pod-runtime adds up how long the Pods of each namespace have run. See
// README.md.
package main

import (
	"flag"
	"os"

	"github.com/homeostat/homeostat/examples/pod-runtime/internal/podruntime"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	var options podruntime.Options
	os.Exit(operator.Program{
		Name:  podruntime.Name,
		Needs: []string{"list,watch pods", "create configmaps", "list,watch,patch configmaps " + podruntime.Name},
		Flags: func(fs *flag.FlagSet) {
			fs.DurationVar(&options.Period, "period", podruntime.DefaultPeriod,
				"how often the total of a namespace with running Pods is updated")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			options.Events, options.Leader = env.Events, env.Leader
			controller, totals, err := podruntime.New(env.Cluster.Client(), &options)
			if err != nil {
				return nil, err
			}
			return []*reconcile.Controller{controller}, env.Metrics.Register(totals)
		},
	}.Main(os.Args[1:], os.Stderr))
}
