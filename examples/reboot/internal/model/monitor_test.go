package model_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/internal/apisim"
)

// retry is how long a request waits after it was called off, in all groups.
const retry = 10 * time.Second

const prefix = "reboot.homeostat.dev/"

// written has the fields of all the operator's annotations.
type written struct {
	Request  string    `json:"request"`
	Epoch    int64     `json:"epoch"`
	ToBootID string    `json:"toBootID"`
	Result   string    `json:"result"`
	At       string    `json:"at"`
	Drained  bool      `json:"drained"`
	Accepted string    `json:"acceptedAt"`
	Policy   string    `json:"drainPolicy"`
	Seconds  int       `json:"drainSeconds"`
	NotAfter string    `json:"notAfter"`
	Asked    *struct{} `json:"asked"`
	Beat     int64     `json:"beat"`
}

// nodeView is the monitor's view of a node.
type nodeView struct {
	uid                     string
	needed                  *string
	paused                  bool
	now, inProgress, last   *written
	permits                 []time.Time // recent ones
	ready, cordoned, exists bool
	reportedBoot            string
	labels                  labels.Set
}

// truth is the monitor's knowledge about a node's machine.
type truth struct {
	disrupted  bool            // by us, and its kubelet has not reported Ready in the new boot
	reboots    map[string]int  // by UID and epoch
	acceptedAt map[string]int  // boots of the machine when it was accepted
	ours       bool            // the cordon is the agent's
	accepted   time.Time       // the latest time, by the true clock
	evict      map[string]bool // Pods that were there when it was accepted
	asked      bool            // a request is open
	rebooted   bool            // since it was asked
}

// A monitor checks the invariants after every commit.
type monitor struct {
	boots    func(node string) int
	nodes    map[string]*nodeView
	truths   map[string]*truth
	groups   map[string]*api.RebootGroup
	window   map[string][]moment      // since the last commit of that group
	scopes   *scopes                  // of now
	closed   bool                     // the gate
	windowed time.Time                // when the windows of the group were changed last
	slow     map[string]time.Duration // how long a machine takes to go down
	files    bool                     // agents ask for what files require
	blind    map[string]bool          // machines whose boot id stays
	pods     map[string]string        // the node of each Pod that a drain must evict, by UID
	found    []violation
	reserved int
}

type violation struct{ invariant, what string }

// broken returns the first violation of the invariant, or of any if it is "".
func (m *monitor) broken(invariant string) *violation {
	for i := range m.found {
		if invariant == "" || m.found[i].invariant == invariant {
			return &m.found[i]
		}
	}
	return nil
}

func newMonitor(boots func(string) int) *monitor {
	return &monitor{
		boots: boots, nodes: map[string]*nodeView{}, truths: map[string]*truth{},
		groups: map[string]*api.RebootGroup{}, window: map[string][]moment{},
		pods: map[string]string{}, scopes: &scopes{}, blind: map[string]bool{}, slow: map[string]time.Duration{},
	}
}

func (m *monitor) violated(invariant, format string, args ...any) {
	m.found = append(m.found, violation{invariant, fmt.Sprintf(format, args...)})
}

func (m *monitor) truth(node string) *truth {
	if m.truths[node] == nil {
		m.truths[node] = &truth{reboots: map[string]int{}, acceptedAt: map[string]int{}}
	}
	return m.truths[node]
}

// commit is called after every write.
func (m *monitor) commit(e apisim.Event) {
	switch e.Resource.Resource {
	case "nodes":
		m.nodeCommit(e)
	case api.Resource:
		m.groupCommit(e)
	case "pods":
		m.podCommit(e)
	default:
		return
	}
	m.always()
	m.note()
}

func readNode(u *unstructured.Unstructured) *nodeView {
	var n corev1.Node
	if u == nil {
		return &nodeView{}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		panic(err)
	}
	v := &nodeView{uid: string(n.UID), exists: true, cordoned: n.Spec.Unschedulable, reportedBoot: n.Status.NodeInfo.BootID, labels: n.Labels}
	if needed, ok := n.Annotations[prefix+"reboot-needed"]; ok {
		v.needed = &needed
	}
	v.paused = n.Annotations[prefix+"reboot-paused"] != ""
	v.now = annotation(n.Annotations, "reboot-now")
	v.inProgress = annotation(n.Annotations, "reboot-in-progress")
	v.last = annotation(n.Annotations, "last-reboot")
	v.permits = permits(n.Annotations)
	for _, c := range n.Status.Conditions {
		v.ready = v.ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	return v
}

// permits returns the times in the annotation recent-reboots.
func permits(all map[string]string) (times []time.Time) {
	var recent []written
	if text, ok := all[prefix+"recent-reboots"]; ok {
		if err := json.Unmarshal([]byte(text), &recent); err != nil {
			panic(err)
		}
	}
	for _, w := range recent {
		times = append(times, instant(w.At))
	}
	return times
}

func annotation(all map[string]string, key string) *written {
	text, ok := all[prefix+key]
	if !ok {
		return nil
	}
	w := &written{}
	if err := json.Unmarshal([]byte(text), w); err != nil {
		panic(err)
	}
	return w
}

func (m *monitor) nodeCommit(e apisim.Event) {
	name, before, after := e.Key.Name, readNode(e.Old), readNode(e.New)
	if !after.exists {
		delete(m.nodes, name)
		delete(m.truths, name)
		return
	}
	m.nodes[name] = after
	if e.Call.Client != "" && before.uid == after.uid {
		m.moves(name, e.Call.Client == "admin", before, after)
		m.cordon(name, e.Call.Client == "admin", before, after)
	}
}

func same(a, b *written) bool { return a.Request == b.Request && a.Epoch == b.Epoch }

// moves holds I6: keys move only in pairs. Administrators may do as they like.
func (m *monitor) moves(name string, admin bool, before, after *nodeView) {
	t := m.truth(name)
	if admin {
		m.administered(t, before, after)
		return
	}
	if before.needed != nil && after.needed == nil && (before.now != nil || after.now == nil) {
		m.violated("I6", "%s: reboot-needed was removed without a grant", name)
	}
	if m.files && before.needed == nil && after.needed != nil && before.now == nil && before.inProgress == nil {
		t.asked, t.rebooted = true, false
		return
	}
	if before.needed == nil && after.needed != nil && (before.now == nil || after.now != nil) && !gaveUp(before, after) {
		m.violated("I6", "%s: reboot-needed appeared without taking reboot-now or reboot-in-progress away", name)
	}
	if before.now == nil && after.now != nil &&
		(before.needed == nil || after.needed != nil || *before.needed != after.now.Request) {
		m.violated("I6", "%s: reboot-now appeared without taking reboot-needed away", name)
	}
	if before.now != nil && after.now == nil {
		accepted := before.inProgress == nil && after.inProgress != nil && same(before.now, after.inProgress)
		revoked := after.needed != nil
		if !accepted && !revoked {
			m.violated("I6", "%s: reboot-now was lost", name)
		}
	}
	if before.inProgress == nil && after.inProgress != nil {
		if before.now == nil || after.now != nil {
			m.violated("I6", "%s: reboot-in-progress appeared without taking reboot-now away", name)
		}
		m.opportune(name, after.inProgress)
		t.acceptedAt[epochOf(after.uid, after.inProgress)] = m.boots(name)
		t.evict, t.accepted = map[string]bool{}, time.Now().Add(-time.Second)
		for uid, node := range m.pods {
			if node == name {
				t.evict[uid] = true
			}
		}
	}
	if before.inProgress != nil && after.inProgress == nil {
		m.completed(name, t, before, after)
	}
}

// opportune holds I9: nothing is accepted after the window has closed.
func (m *monitor) opportune(name string, w *written) {
	if w.NotAfter == "" {
		return
	}
	if closes, at := instant(w.NotAfter), instant(w.Accepted); !at.Before(closes) {
		m.violated("I9", "%s: accepted %v after its window has closed", name, at.Sub(closes))
	}
}

func instant(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at
}

// inTime holds I9: no machine goes down outside the maintenance windows of the
// group that has a slot for it, as the group's spec is now, unless that has
// changed a moment ago. A node that has moved since is rebooted by that group
// nevertheless. Only the first group has windows.
func (m *monitor) inTime(name string, tolerance time.Duration) {
	g := m.holder(name, m.nodes[name].uid)
	if g == nil || g.Name != groupName || time.Since(m.windowed) < permitTime+tolerance {
		return
	}
	windows, err := rules.NewWindows(g)
	if err != nil {
		panic(err)
	}
	if now := time.Now(); !windows.Open(now) && !windows.Open(now.Add(-tolerance)) {
		m.violated("I9", "%s: goes down after its window %v has closed", name, g.Spec.Windows)
	}
}

// permitTime is how long the controller's permission to go down is valid, at
// most.
const permitTime = time.Minute

// slack is how long a write may be on its way.
const slack = 5 * time.Second

func epochOf(uid string, w *written) string { return fmt.Sprintf("%s/%d", uid, w.Epoch) }

// gaveUp reports whether the agent has given the request back.
func gaveUp(before, after *nodeView) bool {
	return before.inProgress != nil && after.inProgress == nil && after.needed != nil &&
		after.last != nil && (after.last.Result == "called-off" || after.last.Result == "unproven")
}

func (m *monitor) completed(name string, t *truth, before, after *nodeView) {
	switch accepted := t.acceptedAt[epochOf(before.uid, before.inProgress)]; {
	case after.last == nil || !same(before.inProgress, after.last):
		m.violated("I6", "%s: reboot-in-progress was lost", name)
	case after.last.Result == "called-off", after.last.Result == "unproven":
		m.givenBack(name, accepted, before, after)
	case m.boots(name) == accepted:
		m.violated("I6", "%s: reboot-in-progress was completed without a reboot", name)
	}
}

// givenBack holds I6 for a reboot that was called off.
func (m *monitor) givenBack(name string, accepted int, before, after *nodeView) {
	switch {
	case (before.inProgress.Asked == nil) == (after.last.Result == "unproven"):
		m.violated("I6", "%s: %s, although it was told to reboot, or was not: %v", name, after.last.Result, before.inProgress.Asked)
	case after.needed == nil || before.needed == nil && *after.needed != before.inProgress.Request:
		m.violated("I6", "%s: called off, and the request is lost", name)
	case m.boots(name) != accepted && after.last.Result == "unproven" && !m.blind[name]:
		m.violated("I6", "%s: called off after its reboot", name)
	}
}

func (m *monitor) administered(t *truth, before, after *nodeView) {
	if after.needed != nil && before.needed == nil {
		t.asked, t.rebooted = true, false
	}
	if after.needed == nil && before.needed != nil && after.now == nil {
		t.asked = false
	}
	if before.inProgress != nil && after.inProgress == nil {
		t.asked = after.needed != nil // The administrator has called it off.
	}
}

// cordon holds I7.
func (m *monitor) cordon(name string, admin bool, before, after *nodeView) {
	t := m.truth(name)
	switch {
	case !before.cordoned && after.cordoned:
		t.ours = !admin
	case before.cordoned && !after.cordoned && !admin && !t.ours:
		m.violated("I7", "%s: the agent uncordoned a node that another client had cordoned", name)
	}
}

// reported is called when a kubelet has reported Ready in the machine's boot.
func (m *monitor) reported(name string) { m.truth(name).disrupted = false }

// down is called when a machine goes down because its agent said so.
func (m *monitor) down(name string) {
	n, t := m.nodes[name], m.truth(name)
	t.disrupted, t.rebooted = true, true
	if n == nil {
		return // The node is deleted; its machine may reboot.
	}
	if n.inProgress == nil {
		m.violated("I3", "%s: the machine was rebooted without a reboot in progress", name)
		return
	}
	m.emptied(name, n.inProgress, t)
	m.inTime(name, slack+m.slow[name])
	key := epochOf(n.uid, n.inProgress)
	if t.reboots[key]++; t.reboots[key] > 1 {
		m.violated("I5", "%s: rebooted %d times in epoch %d", name, t.reboots[key], n.inProgress.Epoch)
	}
	m.always()
}

// emptied holds I8: the Pods have left, or the policy is force and their time
// is over.
func (m *monitor) emptied(name string, w *written, t *truth) {
	forced := w.Policy == "force" && time.Since(t.accepted) >= time.Duration(w.Seconds)*time.Second
	for uid := range t.evict {
		if m.pods[uid] == name && !forced {
			m.violated("I8", "%s: goes down under policy %s, accepted at %s, with a Pod that should have been evicted",
				name, w.Policy, w.Accepted)
		}
	}
}

func (m *monitor) podCommit(e apisim.Event) {
	if e.New == nil {
		delete(m.pods, string(e.Old.GetUID()))
		return
	}
	node, _, _ := unstructured.NestedString(e.New.Object, "spec", "nodeName")
	m.pods[string(e.New.GetUID())] = node
}

func (m *monitor) holds(name, uid string) bool { return m.holder(name, uid) != nil }

// holder returns the group that has a slot for the node, or nil.
func (m *monitor) holder(name, uid string) *api.RebootGroup {
	for _, g := range m.groups {
		if slices.ContainsFunc(g.Status.Slots, func(s api.Slot) bool { return s.Node == name && string(s.NodeUID) == uid }) {
			return g
		}
	}
	return nil
}

// always holds I2 and I3.
func (m *monitor) always() {
	for name, n := range m.nodes {
		if m.holds(name, n.uid) {
			continue
		}
		if n.now != nil || n.inProgress != nil {
			m.violated("I2", "%s: told to reboot, or rebooting, without a slot", name)
		}
		if m.truth(name).disrupted {
			m.violated("I3", "%s: disrupted by us, without a slot", name)
		}
	}
}

// resting reports whether the request waits since it was called off, or for a
// person.
func (m *monitor) resting(n *nodeView) bool {
	if m.often(n) {
		return true
	}
	if n.last == nil || *n.needed != n.last.Request {
		return false
	}
	if n.last.Result == "unproven" {
		return true
	}
	for _, g := range m.groups {
		for _, w := range g.Status.Queue {
			if string(w.NodeUID) == n.uid && w.NotBefore.After(time.Now()) {
				return n.last.Result == "called-off"
			}
		}
	}
	return false
}

// often reports whether the node was permitted to reboot as often as its group
// allows.
func (m *monitor) often(n *nodeView) bool {
	g := m.groups[groupName]
	if g == nil {
		return false
	}
	count, in := g.Spec.MaxReboots.Bounds()
	for _, at := range n.permits {
		if time.Since(at) < in {
			count--
		}
	}
	return count <= 0
}

func (m *monitor) groupCommit(e apisim.Event) {
	name := e.Key.Name
	before := &api.RebootGroup{}
	if e.Old != nil {
		before = readGroup(e.Old)
	}
	if e.New == nil {
		delete(m.groups, name)
		delete(m.window, name)
		m.scopes = m.scope()
		return
	}
	after := readGroup(e.New)
	m.groups[name] = after
	if e.Old != nil {
		m.added(name, before, after)
	}
	if name == groupName && !reflect.DeepEqual(before.Spec.Windows, after.Spec.Windows) {
		m.windowed = time.Now()
	}
	m.window[name] = nil
	m.scopes = m.scope()
}

func readGroup(u *unstructured.Unstructured) *api.RebootGroup {
	g := &api.RebootGroup{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, g); err != nil {
		panic(err)
	}
	return g
}

// settled describes the leftovers of all requests; "" means none.
func (m *monitor) settled() string {
	for name, n := range m.nodes {
		switch t := m.truth(name); {
		case n.needed != nil || n.now != nil || n.inProgress != nil:
			return name + " is not done"
		case t.asked && !t.rebooted:
			return name + " was asked for, and has not been rebooted"
		case m.holds(name, n.uid):
			return name + " still has a slot"
		}
	}
	for name, g := range m.groups {
		if len(g.Status.Slots)+len(g.Status.Queue) > 0 {
			return name + " has slots or a queue"
		}
	}
	return ""
}
