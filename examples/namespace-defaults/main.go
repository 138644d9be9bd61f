// Command namespace-defaults adds an owner, a ResourceQuota and a LimitRange to
// every namespace that is not exempt. See README.md.
package main

import (
	"flag"
	"os"

	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	var policy string
	os.Exit(operator.Program{
		Name: defaults.Name,
		Needs: []string{
			"list,watch,patch namespaces",
			"create resourcequotas", "list,watch,patch,delete resourcequotas " + defaults.Name,
			"create limitranges", "list,watch,patch,delete limitranges " + defaults.Name,
		},
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&policy, "policy", "/etc/namespace-defaults/policy.yaml", "`file` of the policy")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			read, err := defaults.ReadPolicy(policy)
			if err != nil {
				return nil, err
			}
			controller, err := defaults.New(env.Cluster.Client(), read,
				&defaults.Options{Events: env.Events, Leader: env.Leader})
			return []*reconcile.Controller{controller}, err
		},
	}.Main(os.Args[1:], os.Stderr))
}
