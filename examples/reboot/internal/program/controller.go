// Package program contains the operator's two programs. The commands agent and
// controller run them:
//
//	os.Exit(program.Controller().Main(os.Args[1:], os.Stderr))
package program

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/controller"
	"github.com/homeostat/homeostat/examples/reboot/internal/gate"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// Controller returns the program that lets the nodes of a cluster reboot. It
// never lets more nodes of a RebootGroup reboot at once than the group allows.
func Controller() operator.Program {
	options := &controller.Options{}
	blocking := blockers{}
	groups := api.Resource + "." + api.GroupVersion().Group
	return operator.Program{
		Name:  controller.DefaultName,
		Usage: controller.DefaultName + ": lets nodes reboot, never more at once than their RebootGroup allows",
		Needs: []string{
			"get,list,watch,patch nodes", "get,list,watch,create,patch " + groups, "patch " + groups + "/status",
		},
		FencingPolicy: operator.FencingPolicy,
		Flags: func(fs *flag.FlagSet) {
			fs.DurationVar(&options.StuckAfter, "stuck-after", controller.DefaultStuckAfter,
				"how long a slot may be held before the condition Stuck is True")
			fs.StringVar(&blocking.url, "prometheus-url", "", "`URL` of the Prometheus server that answers --blocking-query")
			fs.StringVar(&blocking.query, "blocking-query", "", "no reboot begins while this `query` has a result, "+
				`such as ALERTS{alertstate="firing",severity="critical"}`)
			fs.StringVar(&blocking.command, "blocking-command", "",
				"no reboot begins while this `command`, in words separated by spaces and without quotes, ends with a status "+
					"other than 0; the first line of its output is the reason")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			var err error
			if options.Gate, err = blocking.gate(); err != nil {
				return nil, err
			}
			return startController(env, options)
		},
	}
}

// blockers contains the flags that choose what blocks reboots.
type blockers struct{ url, query, command string }

// keepAnswer is how long the controller uses an answer of Prometheus or of the
// command before it asks again.
const keepAnswer = 10 * time.Second

// gate returns the gate that the flags specify, or nil.
func (b blockers) gate() (controller.Gate, error) {
	var checks []gate.Check
	if b.url != "" || b.query != "" {
		alerts, err := gate.NewAlerts(b.url, b.query)
		if err != nil {
			return nil, fmt.Errorf("%w (see --prometheus-url and --blocking-query)", err)
		}
		checks = append(checks, alerts)
	}
	if words := strings.Fields(b.command); len(words) > 0 {
		checks = append(checks, gate.Command(words))
	}
	if len(checks) == 0 {
		return nil, nil
	}
	return gate.New(keepAnswer, checks...), nil
}

func startController(env operator.Env, options *controller.Options) ([]*reconcile.Controller, error) {
	groups, err := api.NewClient(env.Cluster)
	if err != nil {
		return nil, err
	}
	options.Events, options.Leader = env.Events, env.Leader
	c, err := controller.New(env.Cluster.Client().CoreV1().Nodes(), groups, options)
	if err != nil {
		return nil, err
	}
	if err := env.Metrics.Register(c.Collector()); err != nil {
		return nil, fmt.Errorf("registering the metrics of the groups: %w", err)
	}
	return []*reconcile.Controller{c.Control()}, nil
}
