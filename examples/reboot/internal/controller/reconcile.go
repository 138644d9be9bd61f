package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// reconcile performs the first step that is due in a group. The step's write
// changes an object, and the event of that change causes the next reconcile. A
// step may seem due in the cache although live reads show that it is not: the
// cache is stale, or it lacks a group that cannot be decoded. That slot waits,
// and the other slots and requests of the group go on. They also go on if a step
// fails, for example because a webhook refuses to write its node.
func (c *Controller) reconcile(
	ctx context.Context, request reconcile.Request[*api.RebootGroup],
) (reconcile.Result, error) {
	group, ok := request.Object()
	if !ok {
		return c.missing(ctx, request.Key.Name)
	}
	v := c.newView(group, c.cachedGroups(), c.cachedNodes())
	wait := v.change()
	var errs []error
	for i, slot := range group.Status.Slots {
		node := c.cachedNode(slot.Node)
		decision := rules.ForSlot(v.situation(i, node), slot, node)
		if decision.Step != rules.Wait {
			stepped, after, err := c.advance(ctx, group.Name, slot.Node)
			if err == nil && stepped {
				return again(after), errors.Join(errs...)
			}
			errs = append(errs, err)
			wait = rules.Sooner(wait, after)
			continue
		}
		wait = rules.Sooner(wait, decision.After)
	}
	recheck, err := c.assign(ctx, v)
	if errs = append(errs, err); errors.Join(errs...) != nil {
		return reconcile.Result{}, errors.Join(errs...)
	}
	return again(rules.Sooner(wait, recheck)), nil
}

// again returns the result of a reconcile. With this result, the group is
// reconciled again after the given time, even if nothing has changed. If after
// is 0, only a change causes the next reconcile.
func again(after time.Duration) reconcile.Result {
	if after > 0 {
		return reconcile.After(after)
	}
	return reconcile.Result{}
}

// assign assigns the free slots of a group, or reports its state if there is no
// slot to assign. If the group is being deleted, it only removes the finalizer.
// It returns the time after which it must be called again, even if nothing has
// changed, or 0.
func (c *Controller) assign(ctx context.Context, v view) (time.Duration, error) {
	group := v.group
	if group.DeletionTimestamp != nil {
		return 0, c.removeFinalizer(ctx, group)
	}
	r := c.free(ctx, &v)
	if len(r.Slots) > 0 || !slices.Equal(r.Queue, group.Status.Queue) {
		return c.reserve(ctx, group.Name)
	}
	stuck, recheck := c.stuck(v)
	return rules.Sooner(r.After, recheck), c.report(ctx, v, stuck)
}

// missing reconciles a group that does not exist. It creates the built-in group
// if a node needs it. For any other name it does nothing.
func (c *Controller) missing(ctx context.Context, name string) (reconcile.Result, error) {
	if name != api.DefaultName {
		return reconcile.Result{}, nil
	}
	membership := c.cachedGroups().Membership()
	for node := range c.nodeCache.Snapshot().All() {
		if needsDefault(membership, node) {
			return c.createDefault(ctx, node.Name)
		}
	}
	return reconcile.Result{}, nil
}

// needsDefault reports whether the node needs the built-in group: it requests a
// reboot, and no group selects it.
func needsDefault(membership rules.Membership, node *corev1.Node) bool {
	_, asked := node.Annotations[protocol.Needed]
	group, rivals := membership.Group(node)
	return asked && group == "" && len(rivals) == 0
}

// createDefault creates the built-in group if the live node needs it and no
// live group selects the node. It does so even if the selector of a group
// cannot be read. The node may then belong to that group, so the built-in group
// gives it no slot, and only reports that it waits.
func (c *Controller) createDefault(ctx context.Context, name string) (reconcile.Result, error) {
	live, err := c.liveGroups(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	node, err := protocol.Live(ctx, c.nodes, name)
	if err != nil || node == nil || !needsDefault(live.Membership(), node) {
		return again(reread(live)), err
	}
	group := &api.RebootGroup{
		ObjectMeta: metav1.ObjectMeta{Name: api.DefaultName},
		Spec:       api.RebootGroupSpec{MaxUnavailable: intstr.FromInt32(1)},
	}
	_, err = c.groups.Create(ctx, group, metav1.CreateOptions{FieldManager: c.options.Name})
	if patch.IsStale(err) {
		return again(reread(live)), nil // The cache will show it, unless it cannot be decoded.
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("creating RebootGroup %q: %w", api.DefaultName, err)
	}
	logr.FromContextOrDiscard(ctx).Info("created the built-in group for a node that no group selects",
		"group", api.DefaultName, "node", name)
	return reconcile.Result{}, nil
}

// stuck returns a text for each node that has held a slot for too long, with
// the node's name. next is the time until another node will have held its slot
// for too long, or 0 if no other node has a slot.
func (c *Controller) stuck(v view) (names []string, next time.Duration) {
	for i, slot := range v.group.Status.Slots {
		node := c.cachedNode(slot.Node)
		left := c.stuckAt(slot, node).Sub(v.now)
		if left > 0 {
			next = rules.Sooner(next, left)
			continue
		}
		decision := rules.ForSlot(v.situation(i, node), slot, node)
		names = append(names, fmt.Sprintf("%s since %s: %s", slot.Node, slot.Since.UTC().Format(time.RFC3339), decision.Why))
	}
	return names, next
}

// stuckAt returns the time at which the slot will have been held for too long.
// For a drain with the policy wait, this is the end of the drain's timeout, if
// that is earlier than StuckAfter.
func (c *Controller) stuckAt(slot api.Slot, node *corev1.Node) time.Time {
	stuckAt := slot.Since.Add(c.options.StuckAfter)
	if node == nil || slot.Stage != rules.StageDraining {
		return stuckAt
	}
	p := protocol.Read(node).InProgress
	if p == nil || p.Policy != protocol.PolicyWait {
		return stuckAt
	}
	if timeout := slot.StageSince.Add(p.DrainTimeout()); timeout.Before(stuckAt) {
		return timeout
	}
	return stuckAt
}
