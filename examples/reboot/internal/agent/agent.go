package agent

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// A NodeClient reads and patches nodes, as clientset.CoreV1().Nodes() does.
type NodeClient interface {
	informer.Client[*corev1.Node, *corev1.NodeList]
	patch.Client[*corev1.Node]
}

// An Agent reboots one node.
type Agent struct {
	options Options
	nodes   NodeClient
	pods    drain.Client
	control *reconcile.Controller
	memory  *memory // only the worker uses it
}

// New returns an agent. The caller runs it with Run. pods is a client for all
// Pods. New returns an error if an argument or an option is wrong.
func New(nodes NodeClient, pods drain.Client, o *Options) (*Agent, error) {
	options := o.withDefaults()
	var errs []error
	if nodes == nil || pods == nil {
		errs = append(errs, errors.New("the client for nodes or for Pods is nil"))
	}
	if err := errors.Join(append(errs, options.validate())...); err != nil {
		return nil, fmt.Errorf("making the reboot agent: %w", err)
	}
	a := &Agent{options: options, nodes: nodes, pods: pods}
	own := fields.OneTermEqualSelector("metadata.name", options.Node).String()
	cache := informer.For(nodes, &informer.Options{FieldSelector: own})
	control, err := reconcile.New(protocol.AgentManager, cache, reconcile.Func[*corev1.Node](a.reconcile),
		&reconcile.Options{Workers: 1, Backoff: options.Backoff})
	if err != nil {
		return nil, fmt.Errorf("making the reboot agent: %w", err)
	}
	a.control = control
	return a, nil
}

// Run runs the agent until ctx ends, and returns after the last reconcile.
func (a *Agent) Run(ctx context.Context) error { return a.control.Run(ctx) }

// Control returns the agent's controller. Callers can inspect it, or run it
// instead of calling Run.
func (a *Agent) Control() *reconcile.Controller { return a.control }
