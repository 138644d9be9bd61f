package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/machine"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/reconcile"
)

// ask requests a reboot if a file on the host requires one.
func (a *Agent) ask(ctx context.Context, node *corev1.Node, state protocol.State) (reconcile.Result, error) {
	if a.options.Sentinel == nil {
		return reconcile.Result{}, nil
	}
	request, err := a.options.Sentinel()
	if err != nil {
		return reconcile.Result{}, err
	}
	if !rules.Asks(state, request) {
		return reconcile.After(a.options.AskPeriod), nil
	}
	err = protocol.Write(ctx, a.nodes, node, func(n *corev1.Node) error {
		protocol.Ask(n, request)
		return nil
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	logr.FromContextOrDiscard(ctx).Info("requested a reboot", "request", request)
	a.note(node, "RebootRequired", "Ask", "The host requires a reboot: %s", request)
	return reconcile.After(a.options.AskPeriod), nil
}

// accept cordons the node, and records on it that the agent has accepted the
// reboot, and the id of the boot that must end. If the machine inhibits a reboot
// now, accept declines the reboot instead.
func (a *Agent) accept(ctx context.Context, node *corev1.Node, g protocol.Grant, bootID string) error {
	inhibitors, err := a.inhibitors(ctx)
	if err != nil {
		return err
	}
	if inhibitors != "" {
		return a.decline(ctx, node, g, bootID, "RebootInhibited", inhibitors)
	}
	progress := protocol.Progress{
		Request: g.Request, Terms: g.Terms, BootID: bootID, AcceptedAt: a.now(), Start: a.options.Start, Beat: 1,
	}
	err = protocol.Write(ctx, a.nodes, node, func(n *corev1.Node) error {
		return protocol.Accept(n, progress)
	})
	if err != nil {
		return err
	}
	a.memory = nil // A person may have called off an earlier reboot.
	logr.FromContextOrDiscard(ctx).Info("accepted the reboot", "request", g.Request.Request, "epoch", g.Epoch)
	a.note(node, "Draining", "Drain", "Accepted the reboot for request %q and cordoned the node", g.Request.Request)
	return nil
}

// inhibitors returns why the machine inhibits a reboot, or the empty string.
func (a *Agent) inhibitors(ctx context.Context) (string, error) {
	m, ok := a.options.Machine.(machine.Inhibited)
	if !ok {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.options.CallTimeout)
	defer cancel()
	programs, err := m.Inhibitors(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the inhibitors of node %q: %w", a.options.Node, err)
	}
	return programs, nil
}

// decline returns a granted request to the controller before the reboot has
// begun.
func (a *Agent) decline(
	ctx context.Context, node *corev1.Node, g protocol.Grant, bootID, reason, message string,
) error {
	outcome := protocol.Outcome{
		Request: g.Request, FromBootID: bootID, ToBootID: bootID, At: a.now(), Result: protocol.CalledOff, Why: message,
	}
	err := protocol.Write(ctx, a.nodes, node, func(n *corev1.Node) error { return protocol.Decline(n, outcome) })
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("declined the reboot", "request", g.Request.Request, "epoch", g.Epoch,
		"why", message)
	a.warn(node, reason, "Accept", errors.New(message))
	return nil
}

// complete records on the node that the reboot is complete, and uncordons the
// node if the agent's own cordon is still in place. It is called once the
// kernel has a different boot id.
func (a *Agent) complete(ctx context.Context, node *corev1.Node, p protocol.Progress, bootID string) error {
	outcome := protocol.Outcome{
		Request: p.Request, FromBootID: p.BootID, ToBootID: bootID, At: a.now(), Result: protocol.Rebooted,
	}
	uncordon := protocol.MayUncordon(node, &p)
	err := protocol.Write(ctx, a.nodes, node, func(n *corev1.Node) error {
		return protocol.Complete(n, outcome, uncordon)
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("the reboot is complete", "request", p.Request.Request, "uncordoned", uncordon)
	a.note(node, "Rebooted", "Reboot", "Rebooted for request %q: boot %s follows %s", p.Request.Request, bootID, p.BootID)
	return nil
}

// restamp sets the boot id in last-reboot to the id of a boot that was not
// requested. The controller waits until the kubelet reports the boot that
// last-reboot names, so last-reboot must name the newest boot.
func (a *Agent) restamp(ctx context.Context, node *corev1.Node, o protocol.Outcome, bootID string) error {
	o.ToBootID, o.At = bootID, a.now()
	return protocol.Write(ctx, a.nodes, node, func(n *corev1.Node) error { return protocol.Restamp(n, o) })
}
