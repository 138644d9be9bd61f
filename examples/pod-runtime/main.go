// Command pod-runtime adds up how long the Pods of each namespace have run. See
// README.md.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/internal/program"
	"github.com/homeostat/homeostat/examples/pod-runtime/internal/podruntime"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	var options podruntime.Options
	os.Exit(program.Program{
		Name:  podruntime.Name,
		Needs: []string{"list,watch pods", "create configmaps", "list,watch,patch configmaps " + podruntime.Name},
		Flags: func(fs *flag.FlagSet) {
			fs.DurationVar(&options.Period, "period", podruntime.DefaultPeriod,
				"how often the total of a namespace with running Pods is brought up to date")
		},
		Setup: func(env program.Env) ([]*reconcile.Controller, error) {
			client, err := kubernetes.NewForConfig(env.Config)
			if err != nil {
				return nil, fmt.Errorf("making a client: %w", err)
			}
			options.Events, options.Leader = env.Events, env.Leader
			controller, totals, err := podruntime.New(client, &options)
			if err != nil {
				return nil, err
			}
			return []*reconcile.Controller{controller}, env.Metrics.Register(totals)
		},
	}.Main(os.Args[1:], os.Stderr))
}
