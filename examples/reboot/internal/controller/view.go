package controller

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/roster"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// A view contains the cached or live groups and nodes for one decision.
type view struct {
	group      *api.RebootGroup
	membership rules.Membership
	members    []*corev1.Node      // the nodes that the group selects
	size       int                 // the number of members that belong to the group
	guests     []*corev1.Node      // other nodes that have a slot of the group
	overlaps   map[string][]string // by member: the groups that select it, if there are several
	barred     map[string]string   // by member: why it gets no slot of this group
	limit      int
	specErr    error // the mistakes in the group's spec, joined
	windows    rules.Windows
	blocked    string    // why the gate forbids reservations, or empty
	now        time.Time // the current time by the controller's clock
}

// newView returns the view of group. all contains every group, including this
// one, and nodes contains every node.
func (c *Controller) newView(group *api.RebootGroup, all roster.Roster, nodes []*corev1.Node) view {
	v := view{
		group: group, membership: all.Membership(), overlaps: map[string][]string{},
		barred: map[string]string{}, now: c.options.Now(),
	}
	holders := map[types.UID]string{}
	for _, g := range all.Groups {
		for _, s := range g.Status.Slots {
			holders[s.NodeUID] = g.Name
		}
	}
	for _, n := range nodes {
		place(&v, n, holders[n.UID])
	}
	_, selector := rules.Selector(group)
	limit, err := rules.Limit(group, v.size)
	windows, windowErr := rules.NewWindows(group)
	v.limit, v.windows, v.specErr = limit, windows, errors.Join(selector, err, windowErr)
	return v
}

// place adds a node to the view of a group if the group selects the node or has
// a slot for it. holder is the name of the group that has a slot for the node,
// or empty.
func place(v *view, n *corev1.Node, holder string) {
	name := v.group.Name
	owner, rivals := v.membership.Group(n)
	switch {
	case owner == name:
		v.size++
		if holder != "" && holder != name {
			v.barred[n.Name] = fmt.Sprintf("RebootGroup %s still holds a slot for it", holder)
		} else if doubt := v.membership.Doubt(name); doubt != "" {
			v.barred[n.Name] = doubt
		}
	case slices.Contains(rivals, name):
		v.overlaps[n.Name], v.barred[n.Name] = rivals, rules.Contested(rivals)
	case holder == name:
		v.guests = append(v.guests, n)
		return
	default:
		return
	}
	v.members = append(v.members, n)
}

// closed returns why no reboot may start in the group, or the empty string.
func (v view) closed() string {
	switch {
	case v.group.DeletionTimestamp != nil:
		return "the group is being deleted"
	case v.specErr != nil:
		return "the group's spec is invalid"
	case v.group.Spec.Paused:
		return "the group is paused"
	case !v.windows.Open(v.now):
		return "no maintenance window is open"
	default:
		return ""
	}
}

// shut returns a text that says when the next window opens. It returns the
// empty string if a window is open, or if the group's spec is invalid.
func (v view) shut() string {
	if v.specErr != nil || v.windows.Open(v.now) {
		return ""
	}
	opening := v.windows.Change(v.now)
	if opening.IsZero() {
		return "no maintenance window opens within the next weeks"
	}
	return "the next maintenance window opens at " + opening.UTC().Format(time.RFC3339)
}

// terms returns the conditions under which slots can be reserved. Their limit
// is 0 while no reboot may start.
func (v view) terms() rules.Terms {
	t := rules.Terms{Limit: v.limit, MaxReboots: v.group.Spec.MaxReboots, Barred: v.barred, Now: v.now}
	if v.closed() != "" || v.blocked != "" {
		t.Limit = 0
	}
	return t
}

// change returns the time until a window opens or closes. It returns 0 if no
// window will open or close.
func (v view) change() time.Duration {
	if edge := v.windows.Change(v.now); !edge.IsZero() {
		return edge.Sub(v.now)
	}
	return 0
}

// grantTerms returns the conditions that a grant passes on to the agent: how to
// drain the node, and when the maintenance window closes.
func (v view) grantTerms() protocol.Terms {
	drain := v.group.Spec.Drain
	t := protocol.Terms{Policy: drain.Policy, DrainSeconds: drain.TimeoutSeconds}
	t.NotAfter.Time = v.windows.Change(v.now) // A window is open, so this is its end.
	return t
}

// situation returns the facts that decide the next step of the slot with this
// index in the ledger. node is nil if it was deleted.
func (v view) situation(slot int, node *corev1.Node) rules.Situation {
	s := rules.Situation{
		Closed:    v.closed(),
		Over:      v.specErr == nil && slot >= v.limit,
		Contended: len(v.group.Status.Queue) > 0,
		MinReady:  time.Duration(v.group.Spec.MinReadySeconds) * time.Second,
		Retry:     v.group.Spec.Drain.Retry(),
		Invalid:   v.specErr != nil, MaxReboots: v.group.Spec.MaxReboots, Now: v.now,
	}
	if !s.Invalid {
		s.Shut, s.WindowLeft = !v.windows.Open(v.now), v.change()
	}
	if node != nil {
		s.Stray = v.membership.Stray(v.group.Name, node)
	}
	return s
}
