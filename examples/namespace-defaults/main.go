// Command namespace-defaults gives every eligible namespace an owner, a
// ResourceQuota and a LimitRange. See README.md.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/examples/internal/program"
	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	var policy string
	os.Exit(program.Program{
		Name: defaults.Name,
		Needs: []string{
			"list,watch,patch namespaces",
			"create resourcequotas", "list,watch,patch,delete resourcequotas " + defaults.Name,
			"create limitranges", "list,watch,patch,delete limitranges " + defaults.Name,
		},
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&policy, "policy", "/etc/namespace-defaults/policy.yaml", "`file` of the policy")
		},
		Setup: func(env program.Env) ([]*reconcile.Controller, error) {
			read, err := defaults.ReadPolicy(policy)
			if err != nil {
				return nil, err
			}
			client, err := kubernetes.NewForConfig(env.Config)
			if err != nil {
				return nil, fmt.Errorf("making a client: %w", err)
			}
			controller, err := defaults.New(client, read, &defaults.Options{Events: env.Events, Leader: env.Leader})
			return []*reconcile.Controller{controller}, err
		},
	}.Main(os.Args[1:], os.Stderr))
}
