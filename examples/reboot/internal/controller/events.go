package controller

import (
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/examples/reboot/api"
)

// A recorder sends the controller's Events.
type recorder struct {
	events   events.EventRecorder
	interval time.Duration

	mu   sync.Mutex // guards last
	last map[string]time.Time
}

func newRecorder(e events.EventRecorder, interval time.Duration) *recorder {
	return &recorder{events: e, interval: interval, last: map[string]time.Time{}}
}

// requested sends an Event for each node that has joined the queue and that the
// group may reboot.
func (r *recorder) requested(v view, joined []string) {
	group := v.group
	for _, n := range v.members {
		if slices.Contains(joined, n.Name) && v.overlaps[n.Name] == nil {
			r.events.Eventf(n, withKind(group), corev1.EventTypeNormal, "Requested", "Queue",
				"A reboot is requested; RebootGroup %s decides when", group.Name)
		}
	}
}

func (r *recorder) granted(node *corev1.Node, group *api.RebootGroup, request string) {
	r.events.Eventf(node, withKind(group), corev1.EventTypeNormal, "Granted", "Grant",
		"RebootGroup %s grants the reboot for request %q", group.Name, request)
}

// full sends an Event about a group that has reached its limit. It sends at
// most one for each group in EventInterval.
func (r *recorder) full(group *api.RebootGroup, limit int) {
	now := time.Now()
	r.mu.Lock()
	last, known := r.last[group.Name]
	due := !known || now.Sub(last) >= r.interval
	if due {
		r.last[group.Name] = now
	}
	r.mu.Unlock()
	if due {
		r.events.Eventf(withKind(group), nil, corev1.EventTypeNormal, "MaxUnavailableReached", "Queue",
			"Requested reboots wait, because at most %d nodes may be unavailable at once", limit)
	}
}

func (r *recorder) stuck(group *api.RebootGroup, holders []string) {
	r.events.Eventf(withKind(group), nil, corev1.EventTypeWarning, "Stuck", "Watch",
		"These nodes have held slots for too long: %s", strings.Join(holders, "; "))
}

// heldBack sends an Event that names the nodes that wait for a person. The
// caller calls it when these nodes have changed.
func (r *recorder) heldBack(group *api.RebootGroup, nodes string) {
	r.events.Eventf(withKind(group), nil, corev1.EventTypeWarning, "HeldBack", "Watch",
		"These nodes are not rebooted until a person has found the cause: %s", nodes)
}

// ended sends an Event about a reboot that the controller has ended.
func (r *recorder) ended(node *corev1.Node, group *api.RebootGroup, reason, message string) {
	r.events.Eventf(node, withKind(group), corev1.EventTypeWarning, reason, "Watch", "%s", message)
}

// withKind returns an object with the group's metadata and kind, which is all
// that an Event needs. The group itself may lack the kind, because it was
// decoded.
func withKind(group *api.RebootGroup) runtime.Object {
	named := &api.RebootGroup{ObjectMeta: group.ObjectMeta}
	named.SetGroupVersionKind(api.GroupVersion().WithKind("RebootGroup"))
	return named
}

// discard is an event recorder that drops all Events.
type discard struct{}

func (discard) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
