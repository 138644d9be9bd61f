package controller

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// describe sets the fields of status s that are meant for people. It derives
// them from v and stuck, and from the slots and the queue in s.
func (c *Controller) describe(v view, stuck []string, s *api.RebootGroupStatus) {
	s.ObservedGeneration = v.group.Generation
	s.Nodes, s.Limit = int32(v.size), int32(v.limit)
	for _, condition := range rules.Report(rules.Facts{
		Group: v.group, SpecErr: v.specErr, Limit: v.limit, Nodes: v.size, Members: v.members, Guests: v.guests,
		Slots: s.Slots, Queue: s.Queue, Stuck: stuck, Overlaps: v.overlaps, Barred: v.barred,
		Closed: v.shut(), Blocked: v.blocked, Now: v.now,
	}) {
		condition.LastTransitionTime = metav1.Time{Time: v.now}
		meta.SetStatusCondition(&s.Conditions, condition)
	}
}

// report computes the fields of the status that are meant for people, and
// writes the status if they have changed. If the group on the server is newer
// than the group in v, the write fails because of the optimistic lock.
func (c *Controller) report(ctx context.Context, v view, stuck []string) error {
	next := v.group.Status.DeepCopy()
	c.describe(v, stuck, next)
	previous := &v.group.Status
	if next.ObservedGeneration == previous.ObservedGeneration && next.Nodes == previous.Nodes &&
		next.Limit == previous.Limit && slices.Equal(next.Conditions, previous.Conditions) {
		return nil
	}
	err := c.patchStatus(ctx, v.group, func(s *api.RebootGroupStatus) { *s = *next })
	if err != nil {
		return err
	}
	c.announce(v, stuck, next)
	return nil
}

// announce sends an Event when the condition Stuck becomes true. Nodes that
// become stuck while it is true cause no further Event. announce also sends an
// Event when nodes are held back and their list has changed.
func (c *Controller) announce(v view, stuck []string, next *api.RebootGroupStatus) {
	old := v.group.Status.Conditions
	if len(stuck) > 0 && !meta.IsStatusConditionTrue(old, rules.ConditionStuck) {
		c.recorder.stuck(v.group, stuck)
	}
	held := meta.FindStatusCondition(next.Conditions, rules.ConditionHeldBack)
	previous := meta.FindStatusCondition(old, rules.ConditionHeldBack)
	if held.Status == metav1.ConditionTrue && (previous == nil || previous.Message != held.Message) {
		c.recorder.heldBack(v.group, held.Message)
	}
}

// writeSlots changes the slots of a ledger.
func (c *Controller) writeSlots(ctx context.Context, ledger *api.RebootGroup, edit func([]api.Slot) []api.Slot) error {
	return c.patchStatus(ctx, ledger, func(s *api.RebootGroupStatus) { s.Slots = edit(s.Slots) })
}
