// Command ingress-per-service creates an Ingress for every Service that opts
// in. See README.md.
package main

import (
	"flag"
	"os"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/homeostat/homeostat/examples/ingress-per-service/internal/ingress"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	var options ingress.Options
	os.Exit(operator.Program{
		Name:     ingress.Name,
		Replicas: operator.Sharded,
		Needs:    []string{"get,list,watch services", "list,watch,create,patch,delete ingresses.networking.k8s.io"},
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&options.Host, "host", ingress.DefaultHost, "`host` of the Ingresses; {{.Namespace}} and "+
				"{{.Name}} stand for the Service's")
			fs.StringVar(&options.ClassName, "ingress-class", "", "ingressClassName of the Ingresses; if empty, the "+
				"cluster chooses")
			fs.StringVar((*string)(&options.PathType), "path-type", string(networkingv1.PathTypePrefix),
				"pathType of the path /")
			fs.IntVar(&options.Sweep.Confirmed, "confirm-orphans", 0,
				"let the first sweep delete up to N Ingresses past the safety limit")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			options.Shards = env.Shards
			controller, err := ingress.New(env.Cluster.Client(), env.Events, &options)
			return []*reconcile.Controller{controller}, err
		},
	}.Main(os.Args[1:], os.Stderr))
}
