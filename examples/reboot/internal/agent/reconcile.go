package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/reconcile"
)

// reconcile performs the agent's next step.
func (a *Agent) reconcile(ctx context.Context, request reconcile.Request[*corev1.Node]) (reconcile.Result, error) {
	node, ok := request.Object()
	if !ok {
		logr.FromContextOrDiscard(ctx).Info("the node does not exist, waiting until it is created", "node", request.Key.Name)
		return reconcile.Result{}, nil
	}
	bootID, err := a.bootID(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	state := protocol.Read(node)
	step, err := rules.Agent(state, bootID, a.options.Now())
	if err != nil {
		a.warn(node, "InvalidAnnotation", "Read", err)
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	ctx = logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).WithValues("node", node.Name, "bootID", bootID))
	switch step {
	case rules.Accept:
		return reconcile.Result{}, a.accept(ctx, node, *state.Now, bootID)
	case rules.Refuse:
		reason := rules.Apart(state.Now, a.options.Now())
		return reconcile.Result{}, a.decline(ctx, node, *state.Now, bootID, "ClocksApart", reason)
	case rules.Resume:
		return a.resume(ctx, node, *state.InProgress, state.Permit)
	case rules.Complete:
		return reconcile.Result{}, a.complete(ctx, node, *state.InProgress, bootID)
	case rules.Restamp:
		return reconcile.Result{}, a.restamp(ctx, node, *state.Last, bootID)
	default:
		return a.ask(ctx, node, state)
	}
}

func (a *Agent) bootID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.options.CallTimeout)
	defer cancel()
	id, err := a.options.Machine.BootID(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the boot id of node %q: %w", a.options.Node, err)
	}
	return id, nil
}

// now returns the time of the node's clock in whole seconds, as it is stored in
// annotations.
func (a *Agent) now() metav1.Time {
	return metav1.Time{Time: a.options.Now().UTC().Truncate(time.Second)}
}
