package rules

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
)

// MaxQueue limits the queue of a ledger, because the ledger is a single object
// of the API server. When it gets shorter, further requests join it, in the
// order of the names of their nodes. A request whose reboot was called off
// returns to the queue even if the queue is full. Otherwise the time of its
// next attempt would be lost. So the queue can exceed MaxQueue by the number of
// slots.
const MaxQueue = 1000

// A Reservation is what Reserve changes in a ledger: it adds slots, and
// replaces the queue.
type Reservation struct {
	Slots []api.Slot    // the new slots
	Queue []api.Waiting // the requests that continue to wait
	// Joined are the nodes that are new in the queue or in the slots.
	Joined []string
	// Full is true if a request waits for no reason other than the limit.
	Full bool
	// After is the time after which Reserve must be called again, even if
	// nothing has changed. 0 means that it need not be called before something
	// changes.
	After time.Duration
}

// Terms are the input for a reservation, besides the ledger and the nodes.
type Terms struct {
	// Limit is how many nodes may be unavailable. It is 0 while no reboot may
	// start.
	Limit int
	// MaxReboots limits how often one node is rebooted.
	MaxReboots api.MaxReboots
	// Barred contains the reasons why nodes get no slot of this group, by node.
	// For example, several groups select the node, or another group has a slot
	// for it.
	Barred map[string]string
	Now    time.Time
}

// Reserve assigns free slots, to the oldest requests first. The order of the
// ledger's queue decides which request is older. New requests join its end,
// sorted by the names of their nodes. members are the nodes that the group
// selects, and must have been read after the ledger. The node of a request does
// not count as unavailable itself, and a node with a slot counts only once.
func Reserve(ledger *api.RebootGroupStatus, t Terms, members []*corev1.Node) Reservation {
	byName := map[string]*corev1.Node{}
	for _, n := range members {
		byName[n.Name] = n
	}
	var r Reservation
	waiting := join(ledger, members, t.Now, &r)
	slots := slices.Clone(ledger.Slots)
	unavailable := othersUnavailable(ledger.Slots, members)
	for _, w := range waiting {
		node := byName[w.Node]
		state := protocol.Read(node)
		absent := unavailable
		if Unavailable(node) {
			absent-- // the candidate itself does not count
		}
		full, hold := len(slots)+absent >= t.Limit, HeldBack(node, w, t.Barred[w.Node], t.MaxReboots, t.Now)
		if hold.Why != "" || full {
			r.Full = r.Full || hold.Why == ""
			r.After = Sooner(r.After, hold.Left)
			r.Queue = append(r.Queue, w)
			continue
		}
		unavailable = absent
		slot := api.Slot{
			Node: node.Name, NodeUID: node.UID, Request: *state.Needed, Epoch: state.Spent() + 1,
			Since: metav1.Time{Time: t.Now},
		}
		slots, r.Slots = append(slots, slot), append(r.Slots, slot)
	}
	return r
}

// join returns the next queue. It removes the nodes that no longer wait for a
// slot, and appends the nodes that have begun to wait, in the order of their
// names, until the queue has MaxQueue entries. A node waits if it requests a
// reboot, has no slot, and was not granted a reboot. join adds the names of the
// appended nodes to r.Joined.
func join(ledger *api.RebootGroupStatus, members []*corev1.Node, now time.Time, r *Reservation) []api.Waiting {
	asking := map[string]*corev1.Node{}
	for _, n := range members {
		if s := protocol.Read(n); s.Needed != nil && !protocol.Claimed(n) && !Holds(ledger.Slots, n.Name) {
			asking[n.Name] = n
		}
	}
	var queue []api.Waiting
	for _, w := range ledger.Queue {
		if n := asking[w.Node]; n != nil && n.UID == w.NodeUID {
			queue = append(queue, w)
			delete(asking, w.Node)
		}
	}
	var joining []api.Waiting
	for _, n := range asking {
		joining = append(joining, api.Waiting{Node: n.Name, NodeUID: n.UID, Since: metav1.Time{Time: now}})
	}
	slices.SortFunc(joining, func(a, b api.Waiting) int { return cmp.Compare(a.Node, b.Node) })
	joining = joining[:min(len(joining), max(0, MaxQueue-len(queue)))]
	for _, w := range joining {
		r.Joined = append(r.Joined, w.Node)
	}
	return append(queue, joining...)
}

func othersUnavailable(slots []api.Slot, members []*corev1.Node) int {
	n := 0
	for _, m := range members {
		if Unavailable(m) && !Holds(slots, m.Name) {
			n++
		}
	}
	return n
}

// Sooner returns the shorter of two durations, where 0 means forever.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Holds reports whether the node with this name has one of the slots.
func Holds(slots []api.Slot, node string) bool {
	return slices.ContainsFunc(slots, func(s api.Slot) bool { return s.Node == node })
}
