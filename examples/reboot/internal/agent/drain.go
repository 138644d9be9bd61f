package agent

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/reconcile"
)

// drain makes one pass over the Pods of the node, and the step that follows from it.
func (a *Agent) drain(ctx context.Context, node *corev1.Node, p protocol.Progress) (reconcile.Result, error) {
	limited, cancel := context.WithTimeout(ctx, a.options.CallTimeout)
	pass, err := drain.Evict(limited, a.pods, node.Name)
	cancel()
	left := len(pass.Left)
	if err != nil && left == 0 {
		left = 1 // Unknown is not none.
	}
	step, why := rules.Drain(p, left, now().Time)
	switch step {
	case rules.DrainOver:
		return reconcile.Result{}, a.drained(ctx, node, p, pass, why)
	case rules.CallOff:
		return reconcile.Result{}, a.callOff(ctx, node, p, pass, why)
	case rules.DrainOn:
	}
	a.report(ctx, pass)
	return reconcile.After(a.options.DrainPeriod), errors.Join(err, a.blocked(ctx, node, p, pass.Refusals()))
}

// report logs which Pods the drain waits for, when that has changed.
func (a *Agent) report(ctx context.Context, pass drain.Pass) {
	left := pass.Leftovers()
	if left != a.told && len(pass.Left) > len(pass.Refused) {
		logr.FromContextOrDiscard(ctx).Info("waiting for Pods to end", "left", left)
	}
	a.told = left
}

// blocked notes which evictions are refused, when that has changed.
func (a *Agent) blocked(ctx context.Context, node *corev1.Node, p protocol.Progress, refusals string) error {
	if p.Blocked == refusals {
		return nil
	}
	p.Blocked = refusals
	err := a.patch(ctx, node, func(n *corev1.Node) error { return protocol.Proceed(n, p) })
	if err != nil || refusals == "" {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("evictions are refused, retrying", "refusals", refusals)
	a.warn(node, "EvictionBlocked", "Evict", errors.New(refusals))
	return nil
}

// drained notes that the machine may go down from now on.
func (a *Agent) drained(
	ctx context.Context, node *corev1.Node, p protocol.Progress, pass drain.Pass, why string,
) error {
	p.Drained, p.Blocked = true, ""
	err := a.patch(ctx, node, func(n *corev1.Node) error {
		return protocol.Proceed(n, p)
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("the drain is over", "why", why, "left", pass.Left)
	if !pass.Over() {
		a.warn(node, "DrainForced", "Drain", errors.New(why+"; rebooting with: "+pass.Leftovers()))
	}
	return nil
}

// callOff gives the request back, and the cordon if it is the agent's.
func (a *Agent) callOff(
	ctx context.Context, node *corev1.Node, p protocol.Progress, pass drain.Pass, why string,
) error {
	if !pass.Over() {
		why += ": " + pass.Leftovers()
	}
	outcome := protocol.Outcome{
		Request: p.Request, FromBootID: p.BootID, ToBootID: p.BootID, At: now(), Result: protocol.CalledOff, Why: why,
	}
	uncordon := protocol.MayUncordon(node, &p)
	err := a.patch(ctx, node, func(n *corev1.Node) error {
		return protocol.CallOff(n, outcome, uncordon)
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("called the reboot off",
		"request", p.Request.Request, "why", why, "uncordoned", uncordon)
	a.warn(node, "CalledOff", "Drain", errors.New(why))
	return nil
}
