// Command controlplane is a whole Kubernetes control plane in one program:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl as
// sub-commands, and "run", which starts them together.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/homeostat/homeostat/internal/proof/controlplane/supervisor"
)

const usage = `A whole Kubernetes control plane in one program.

usage: controlplane [run] [flags]           start one and run it in the foreground ("controlplane run -h")
       controlplane COMPONENT [flags]       run one component: etcd, kube-apiserver, kube-controller-manager,
                                            kube-scheduler
       controlplane kubectl [arguments]     talk to the one of $KUBECONFIG

The API server of run has the feature gate ShardedListAndWatch on, if its version has the gate; to switch it off:
-flag=kube-apiserver:--feature-gates=ShardedListAndWatch=false
`

// gates are alpha features of the API server that are switched on for tests. A
// version of Kubernetes that does not know a feature runs without it.
var gates = []featuregate.Feature{"ShardedListAndWatch"}

func main() {
	command, args := "run", os.Args[1:]
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	if os.Getenv(supervisor.Lifeline) != "" {
		go exitWithSupervisor()
	}
	os.Exit(dispatch(command, args))
}

// exitWithSupervisor ends this process when the other end of its standard input
// is closed, because its supervisor has ended.
func exitWithSupervisor() {
	_, _ = io.Copy(io.Discard, os.Stdin) // However the input ends, the caller has ended.
	os.Exit(1)
}

// dispatch carries out one sub-command and returns its exit status.
func dispatch(command string, args []string) int {
	switch command {
	case supervisor.Etcd:
		etcdmain.Main(append([]string{supervisor.Etcd}, args...))
		return 0
	case supervisor.APIServer:
		return component(apiserver.NewAPIServerCommand(), args)
	case supervisor.ControllerManager:
		return component(manager.NewControllerManagerCommand(), args)
	case supervisor.Scheduler:
		return component(scheduler.NewSchedulerCommand(), args)
	case "kubectl":
		return kubectl(args)
	case "run":
		return report(run(args, os.Stdin, os.Stdout, os.Stderr))
	case "help":
		return report(run([]string{"-h"}, os.Stdin, os.Stdout, os.Stderr))
	default:
		return report(fmt.Errorf("unknown command %q\n\n%s", command, usage))
	}
}

func component(c *cobra.Command, args []string) int {
	c.SetArgs(args)
	return cli.Run(c)
}

func kubectl(args []string) int {
	os.Args = append([]string{"kubectl"}, args...) // kubectl looks there for plugins and flags.
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // It exits with the status that belongs to the error.
	}
	return 0
}

func report(err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp): // Help has been printed.
		return 0
	default:
		_, _ = fmt.Fprintln(os.Stderr, "controlplane:", err)
		return 1
	}
}

// run starts a control plane and returns when it has stopped. It stops on
// SIGTERM, SIGINT or SIGHUP, when the parent process has ended, and with
// -control at the end of the input. The reason is written to the log.
func run(args []string, in io.Reader, out, log io.Writer) error {
	o, control, err := parse(args, log)
	if err != nil {
		return err
	}
	o.Flags[supervisor.APIServer] = append(switchedOn(), o.Flags[supervisor.APIServer]...) // the last one counts
	o.Ready = func(kubeconfig string) { _, _ = fmt.Fprintf(out, "export KUBECONFIG=%s\n", kubeconfig) }
	s, err := supervisor.New(o)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	ctx, cancel := supervisor.WithParent(ctx)
	defer cancel(nil)
	if control {
		go func() { // It ends with the input, at the latest with this process.
			defer cancel(errors.New("the standard input, which -control reads, has ended"))
			if err := s.Control(ctx, in, out); err != nil {
				_, _ = fmt.Fprintln(log, "controlplane:", err)
			}
		}()
	}
	return s.Run(ctx)
}

// switchedOn returns the API server's flags for gates.
func switchedOn() (flags []string) {
	known := feature.DefaultMutableFeatureGate.GetAll()
	for _, gate := range gates {
		if _, ok := known[gate]; ok {
			flags = append(flags, fmt.Sprintf("--feature-gates=%s=true", gate))
		}
	}
	return flags
}
