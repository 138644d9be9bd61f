// Command kubectl-reboot is a plugin of kubectl. Put it into the PATH, and run
// kubectl reboot.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/plugin"
)

// pollPeriod is the interval at which the plugin reads the nodes.
const pollPeriod = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{}
	p := &plugin.Plugin{Poll: pollPeriod}
	root := &cobra.Command{
		Use: "kubectl-reboot", Short: "Reboot nodes through the reboot operator", SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl reboot"},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			p.Out = cmd.OutOrStdout()
			config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
			if err != nil {
				return err
			}
			c, err := cluster.New(config, nil)
			if err != nil {
				return err
			}
			p.Nodes = c.Client().CoreV1().Nodes()
			p.Groups, err = api.NewClient(c)
			return err
		},
	}
	root.PersistentFlags().StringVar(&rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig file")
	root.PersistentFlags().StringVar(&overrides.CurrentContext, "context", "", "name of the context in the kubeconfig")
	root.AddCommand(request(p), pause(p, true), pause(p, false), &cobra.Command{
		Use: "status [NODE...]", Short: "Show the state of each node",
		RunE: func(cmd *cobra.Command, nodes []string) error { return p.Status(cmd.Context(), nodes...) },
	}, &cobra.Command{
		Use: "why NODE", Short: "Explain what a node waits for", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, nodes []string) error { return p.Why(cmd.Context(), nodes[0]) },
	})
	return root
}

func request(p *plugin.Plugin) *cobra.Command {
	var id string
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "request NODE...", Short: "Request reboots of nodes", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, nodes []string) error {
			asked, err := p.Request(cmd.Context(), id, nodes...)
			if !wait {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return errors.Join(err, p.Wait(ctx, asked...))
		},
	}
	c.Flags().StringVar(&id, "request", "", "a short `text` that identifies the request, such as kernel-6.12 "+
		"(default: kubectl and the current time)")
	c.Flags().BoolVar(&wait, "wait", false, "wait until all nodes are back, and show their progress")
	c.Flags().DurationVar(&timeout, "timeout", time.Hour, "how long to wait")
	return c
}

func pause(p *plugin.Plugin, paused bool) *cobra.Command {
	use, short := "resume", "Allow reboots of nodes, or of the nodes of a group, again"
	if paused {
		use, short = "pause", "Prevent reboots of nodes, or of the nodes of a group"
	}
	var group string
	c := &cobra.Command{
		Use: use + " [NODE...] [--group GROUP]", Short: short,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			switch {
			case group == "" && len(nodes) == 0:
				return errors.New("specify nodes, or a group with --group")
			case group != "":
				return errors.Join(p.PauseGroup(cmd.Context(), paused, group), p.Pause(cmd.Context(), paused, nodes...))
			default:
				return p.Pause(cmd.Context(), paused, nodes...)
			}
		},
	}
	c.Flags().StringVar(&group, "group", "", "`name` of a RebootGroup")
	return c
}
