package controller

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// advance performs the next step for the slot of a node. It decides from live
// reads. It first reads the ledgers of all groups, and then the node. stepped is
// true if its write, or the write of another controller, causes the next
// reconcile of the group. It is false if the slot must wait: then after is the
// time after which the group must be reconciled again, even if nothing has
// changed, or 0.
func (c *Controller) advance(ctx context.Context, group, node string) (stepped bool, after time.Duration, err error) {
	ledger, all, err := c.ledger(ctx, group)
	if err != nil || ledger == nil {
		return err == nil, 0, err // A group that does not exist has no other slots, either.
	}
	live, err := protocol.Live(ctx, c.nodes, node)
	if err != nil {
		return false, 0, err
	}
	i := slices.IndexFunc(ledger.Status.Slots, func(s api.Slot) bool { return s.Node == node })
	if i < 0 {
		return true, 0, nil // Another controller has released the slot.
	}
	slot := ledger.Status.Slots[i]
	v := c.newView(ledger, all, c.cachedNodes()) // The cached nodes are only counted, to evaluate percentages.
	decision := rules.ForSlot(v.situation(i, live), slot, live)
	if decision.Step == rules.Wait {
		return false, rules.Sooner(reread(all), decision.After), nil
	}
	return true, 0, c.step(ctx, decision, v, i, live)
}

// step carries out the decision about the slot with this index in the ledger.
func (c *Controller) step(
	ctx context.Context, decision rules.SlotDecision, v view, i int, live *corev1.Node,
) error {
	ledger := v.group
	slot := ledger.Status.Slots[i]
	ctx = logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).WithValues(
		"node", slot.Node, "step", decision.Step, "why", decision.Why))
	switch decision.Step {
	case rules.Grant:
		return c.grant(ctx, v, slot, live)
	case rules.Revoke:
		return c.revoke(ctx, ledger, slot, live)
	case rules.Void:
		return protocol.Write(ctx, c.nodes, live, func(n *corev1.Node) error {
			protocol.VoidEpoch(n, slot.Epoch)
			return nil
		})
	case rules.Rewrite:
		return c.writeSlots(ctx, ledger, func(slots []api.Slot) []api.Slot {
			slots[i] = decision.Next
			return slots
		})
	case rules.Release:
		return c.release(ctx, ledger, slot, decision)
	case rules.Decline, rules.CallOff, rules.GiveUp, rules.Conclude:
		return c.end(ctx, decision, v, live)
	case rules.Permit:
		return c.permit(ctx, decision, v, live)
	default:
		return nil
	}
}

// release removes a slot. A request that was called off joins the queue at
// once, even if the queue is full, with the time of its next attempt; see
// [rules.MaxQueue].
func (c *Controller) release(ctx context.Context, ledger *api.RebootGroup, slot api.Slot, d rules.SlotDecision) error {
	return c.patchStatus(ctx, ledger, func(s *api.RebootGroupStatus) {
		s.Slots = slices.DeleteFunc(s.Slots, func(candidate api.Slot) bool { return candidate.Node == slot.Node })
		if !d.NotBefore.IsZero() {
			s.Queue = append(s.Queue, api.Waiting{
				Node: slot.Node, NodeUID: slot.NodeUID, Since: c.now(), NotBefore: d.NotBefore,
			})
		}
	})
}

// permit lets the agent tell its machine to reboot.
func (c *Controller) permit(ctx context.Context, d rules.SlotDecision, v view, node *corev1.Node) error {
	p := protocol.Read(node).InProgress
	_, period := v.group.Spec.MaxReboots.Bounds()
	permission := protocol.Permission{Request: p.Request, Try: p.Try, Seconds: d.Seconds}
	err := protocol.Write(ctx, c.nodes, node, func(n *corev1.Node) error {
		return protocol.AllowNow(n, permission, c.now(), metav1.Time{Time: c.now().Add(-period)})
	})
	if err == nil {
		logr.FromContextOrDiscard(ctx).Info("permitted the reboot", "epoch", p.Epoch, "try", p.Try)
	}
	return err
}

// end ends a reboot in place of an agent that does not respond or must not
// continue. It records the result on the node. If the reboot was called off,
// its request returns to the queue. If it is not known whether the machine has
// rebooted, the request is not tried again. end uncordons the node if the agent
// has cordoned it.
func (c *Controller) end(ctx context.Context, d rules.SlotDecision, v view, node *corev1.Node) error {
	outcome, reason := c.outcome(d, node)
	p := protocol.Read(node).InProgress
	uncordon := p != nil && protocol.MayUncordon(node, p)
	err := protocol.Write(ctx, c.nodes, node, func(n *corev1.Node) error {
		if d.Step == rules.Conclude {
			return protocol.Complete(n, outcome, uncordon)
		}
		if d.Step == rules.Decline {
			return protocol.Decline(n, outcome)
		}
		if d.Step == rules.CallOff { // The machine was not told to go down.
			if err := protocol.Forget(n, outcome.Epoch); err != nil {
				return err
			}
		}
		return protocol.CallOff(n, outcome, uncordon)
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("ended the reboot", "request", outcome.Request.Request, "result", outcome.Result,
		"uncordoned", uncordon)
	c.recorder.ended(node, v.group, reason, d.Why)
	return nil
}

// outcome returns the result of a reboot that the decision ends, and the reason
// for its Event.
func (c *Controller) outcome(d rules.SlotDecision, node *corev1.Node) (o protocol.Outcome, reason string) {
	state := protocol.Read(node)
	o = protocol.Outcome{At: c.now(), Result: protocol.CalledOff, Why: d.Why}
	switch p := state.InProgress; {
	case p != nil:
		o.Request, o.FromBootID, o.ToBootID = p.Request, p.BootID, p.BootID
	default:
		o.Request, o.ToBootID = state.Now.Request, node.Status.NodeInfo.BootID
		if state.Last != nil {
			o.ToBootID = state.Last.ToBootID
		}
		o.FromBootID = o.ToBootID
	}
	switch d.Step {
	case rules.GiveUp:
		o.Result = protocol.Unproven
		return o, "RebootUnproven"
	case rules.Conclude:
		o.Result, o.ToBootID = protocol.Rebooted, node.Status.NodeInfo.BootID
		return o, "Rebooted"
	default:
		return o, "CalledOff"
	}
}

// now returns the time of the controller's clock in whole seconds, as it is
// stored in annotations.
func (c *Controller) now() metav1.Time {
	return metav1.Time{Time: c.options.Now().UTC().Truncate(time.Second)}
}

// grant moves reboot-needed to reboot-now. The write fails if the node has
// changed since it was read. So a grant never succeeds after its slot was
// released, because the controller releases a slot only after it has changed
// the node, to record that the epoch is spent.
func (c *Controller) grant(ctx context.Context, v view, slot api.Slot, node *corev1.Node) error {
	request := protocol.Request{Request: *protocol.Read(node).Needed, Epoch: slot.Epoch}
	terms, granted := v.grantTerms(), c.now()
	err := protocol.Write(ctx, c.nodes, node, func(n *corev1.Node) error {
		return protocol.Allow(n, protocol.Grant{Request: request, Terms: terms, At: granted})
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("granted the reboot", "request", request.Request, "epoch", request.Epoch)
	c.recorder.granted(node, v.group, request.Request)
	return nil
}

// revoke moves reboot-now back to reboot-needed.
func (c *Controller) revoke(ctx context.Context, ledger *api.RebootGroup, slot api.Slot, node *corev1.Node) error {
	state := protocol.Read(node)
	request := state.Now.Request.Request
	err := protocol.Write(ctx, c.nodes, node, func(n *corev1.Node) error {
		protocol.Revoke(n, request, max(slot.Epoch, state.Now.Epoch, state.Void))
		return nil
	})
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("revoked the grant", "request", request, "group", ledger.Name)
	return nil
}
