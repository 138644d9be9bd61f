package program

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/agent"
	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// Agent returns the program that reboots the node on which it runs when the
// controller grants the reboot.
func Agent() operator.Program {
	host := &machine.Host{}
	options := &agent.Options{Machine: host}
	var method method
	var sentinel string
	var patience time.Duration
	return operator.Program{
		Name:     protocol.AgentManager,
		Usage:    protocol.AgentManager + ": reboots the node on which it runs when the controller has granted the reboot",
		Needs:    []string{"get,list,watch,patch nodes", "list pods", "create pods/eviction"},
		Replicas: operator.Independent,
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&options.Node, "node", os.Getenv("NODE_NAME"), "`name` of the node (default: $NODE_NAME)")
			fs.StringVar(&host.BootIDFile, "boot-id-file", machine.DefaultBootIDFile, "`file` that contains the kernel's "+
				"boot id")
			method.flags(fs)
			fs.DurationVar(&options.DrainPeriod, "drain-period", agent.DefaultDrainPeriod,
				"the time between two passes over the Pods of a node that is being drained")
			fs.StringVar(&sentinel, "reboot-sentinel", "",
				"request a reboot when this `file` of the host exists, such as /host/run/reboot-required")
			fs.DurationVar(&options.AskPeriod, "reboot-sentinel-period", agent.DefaultAskPeriod,
				"how often to check whether the file exists")
			fs.DurationVar(&patience, "patience", 0, "deprecated: has no effect, and will be removed in the next release")
		},
		Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
			if patience != 0 {
				logr.FromContextOrDiscard(env.Context).Info(
					"the flag --patience has no effect any more: remove it, because the next release refuses it")
			}
			var err error
			if host.Method, err = method.chosen(); err != nil {
				return nil, err
			}
			if sentinel != "" {
				options.Sentinel = machine.Sentinel(sentinel).Request
			}
			return startAgent(env, options)
		},
	}
}

// method contains the flags that choose how the machine is told to reboot.
type method struct {
	name, socket, command string
	signal                int
}

func (m *method) flags(fs *flag.FlagSet) {
	fs.StringVar(&m.name, "reboot-method", "logind", "`method` of telling the machine to reboot: logind, signal or "+
		"command")
	fs.StringVar(&m.socket, "dbus-socket", machine.DefaultSocket, "logind: the `socket` of the D-Bus system bus")
	fs.IntVar(&m.signal, "reboot-signal", machine.SystemdReboot,
		"signal: the `number` of the signal to send to PID 1, which must be the host's; SIGRTMIN+5 makes systemd reboot")
	fs.StringVar(&m.command, "reboot-command", machine.DefaultCommand,
		"command: the `command` that reboots the machine, as words separated by spaces")
}

func (m *method) chosen() (machine.Method, error) {
	switch m.name {
	case "logind":
		return &machine.Logind{Socket: m.socket}, nil
	case "signal":
		return &machine.Signal{Number: m.signal}, nil
	case "command":
		return machine.Command(m.command), nil
	default:
		return nil, fmt.Errorf("--reboot-method is %q: set logind, signal or command", m.name)
	}
}

func startAgent(env operator.Env, options *agent.Options) ([]*reconcile.Controller, error) {
	client := env.Cluster.Client()
	options.Events = env.Events
	a, err := agent.New(client.CoreV1().Nodes(), drain.Pods(client.CoreV1()), options)
	if err != nil {
		return nil, err
	}
	_, err = client.CoreV1().Nodes().Get(env.Context, options.Node, metav1.GetOptions{})
	if names.IsNotFound(err, corev1.Resource("nodes"), options.Node) {
		return nil, fmt.Errorf("finding node %q: it does not exist: set --node or NODE_NAME to a name that "+
			"kubectl get nodes shows", options.Node)
	}
	if err != nil {
		return nil, fmt.Errorf("finding node %q: %w", options.Node, err)
	}
	return []*reconcile.Controller{a.Control()}, nil
}
