package controller

import (
	"context"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// advance makes the next step about one slot, by live reads: the ledgers of all groups,
// then the node, if they ask for one.
func (c *Controller) advance(ctx context.Context, group, node string) error {
	ledger, groups, err := c.ledger(ctx, group)
	if err != nil || ledger == nil {
		return err
	}
	live, err := c.liveNode(ctx, node)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(ledger.Status.Slots, func(s api.Slot) bool { return s.Node == node })
	if at < 0 {
		return nil // Another controller has released it.
	}
	slot := ledger.Status.Slots[at]
	v := newView(ledger, groups, c.cachedNodes()) // The cache only tells how many nodes a percentage is of.
	decision := rules.ForSlot(v.situation(at, live), slot, live)
	if decision.Step == rules.Wait {
		return nil
	}
	return c.step(ctx, decision, v, at, live)
}

// step writes the decision about the slot at that place of the ledger.
func (c *Controller) step(
	ctx context.Context, decision rules.SlotDecision, v view, at int, live *corev1.Node,
) error {
	ledger := v.group
	slot := ledger.Status.Slots[at]
	ctx = logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).WithValues(
		"node", slot.Node, "step", decision.Step, "why", decision.Why))
	switch decision.Step {
	case rules.Grant:
		return c.grant(ctx, v, slot, live)
	case rules.Revoke:
		return c.revoke(ctx, ledger, slot, live)
	case rules.Void:
		return c.patchNode(ctx, live, func(n *corev1.Node) error {
			protocol.VoidEpoch(n, slot.Epoch)
			return nil
		})
	case rules.Rewrite:
		return c.writeSlots(ctx, ledger, func(slots []api.Slot) []api.Slot {
			slots[at] = decision.Next
			return slots
		})
	case rules.Release:
		return c.writeSlots(ctx, ledger, func(slots []api.Slot) []api.Slot {
			return slices.DeleteFunc(slots, func(s api.Slot) bool { return s.Node == slot.Node })
		})
	default:
		return nil
	}
}

// grant moves needed to now. The slot that was seen is still there when the node is
// still as it was seen: the node says so when an epoch is spent, and only then a
// slot goes.
func (c *Controller) grant(ctx context.Context, v view, slot api.Slot, node *corev1.Node) error {
	request := protocol.Request{Request: *protocol.Read(node).Needed, Epoch: slot.Epoch}
	terms := v.grantTerms()
	err := c.patchNode(ctx, node, func(n *corev1.Node) error {
		return protocol.Allow(n, protocol.Grant{Request: request, Terms: terms})
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("granted", "request", request.Request, "epoch", request.Epoch)
	c.recorder.granted(node, v.group, request.Request)
	return nil
}

// revoke moves now back to needed.
func (c *Controller) revoke(ctx context.Context, ledger *api.RebootGroup, slot api.Slot, node *corev1.Node) error {
	state := protocol.Read(node)
	request := state.Now.Request.Request
	err := c.patchNode(ctx, node, func(n *corev1.Node) error {
		protocol.Revoke(n, request, max(slot.Epoch, state.Now.Epoch, state.Void))
		return nil
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("revoked", "request", request, "group", ledger.Name)
	return nil
}
