// Command configmap-from-crs publishes the Settings of each namespace as one
// ConfigMap. See README.md.
package main

import (
	"flag"
	"os"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/settings"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	var options settings.Options
	os.Exit(operator.Program{
		Name: settings.Name,
		// The ConfigMap of --configmap is not known yet.
		Needs: []string{
			"get,list,watch settings.config.homeostat.dev", "patch settings.config.homeostat.dev/status", "create configmaps",
		},
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&options.ConfigMap, "configmap", settings.DefaultConfigMap, "`name` of the ConfigMap in each namespace")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			inputs, err := api.NewKind(env.Cluster)
			if err != nil {
				return nil, err
			}
			options.Events, options.Leader = env.Events, env.Leader
			controller, err := settings.New(env.Cluster.Client(), inputs.In, &options)
			return []*reconcile.Controller{controller}, err
		},
	}.Main(os.Args[1:], os.Stderr))
}
