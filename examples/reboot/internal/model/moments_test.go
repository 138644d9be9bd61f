package model_test

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/homeostat/homeostat/examples/reboot/api"
)

// moment is the state of the cluster at one resourceVersion, or with a new
// state of the gate.
type moment struct {
	scopes *scopes
	nodes  map[string]nodeAt
	closed bool // the gate
}

type nodeAt struct {
	uid                 string
	labels              labels.Set
	unavailable, asking bool
}

// scopes are which nodes the groups select, and the holders of slots.
type scopes struct {
	selectors map[string]labels.Selector // the selectors of groups that are not being deleted
	holders   map[string][]string        // the groups that hold a slot of a node, by its UID
}

func (m *monitor) scope() *scopes {
	s := &scopes{selectors: map[string]labels.Selector{}, holders: map[string][]string{}}
	for name, g := range m.groups {
		for _, slot := range g.Status.Slots {
			s.holders[string(slot.NodeUID)] = append(s.holders[string(slot.NodeUID)], name)
		}
		if g.DeletionTimestamp != nil {
			continue
		}
		s.selectors[name] = labels.Everything()
		if g.Spec.NodeSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(g.Spec.NodeSelector)
			if err != nil {
				panic(err)
			}
			s.selectors[name] = selector
		}
	}
	return s
}

// selecting returns the groups that select a node, the built-in one if no other
// does.
func (s *scopes) selecting(n nodeAt) []string {
	var all []string
	for name, selector := range s.selectors {
		if name != api.DefaultName && selector.Matches(n.labels) {
			all = append(all, name)
		}
	}
	if len(all) == 0 && s.selectors[api.DefaultName] != nil {
		return []string{api.DefaultName}
	}
	return all
}

// mayHave reports whether the group may give the node a slot: it is the only
// group that selects it, and no other holds a slot for it.
func (s *scopes) mayHave(group string, n nodeAt) bool {
	return slices.Equal(s.selecting(n), []string{group}) &&
		!slices.ContainsFunc(s.holders[n.uid], func(holder string) bool { return holder != group })
}

// note keeps the moment for the groups that will be written.
func (m *monitor) note() {
	now := moment{scopes: m.scopes, nodes: map[string]nodeAt{}, closed: m.closed}
	for name, n := range m.nodes {
		now.nodes[name] = nodeAt{
			uid: n.uid, labels: n.labels,
			unavailable: !n.ready || n.now != nil || n.inProgress != nil,
			asking:      n.needed != nil && !n.paused && n.now == nil && n.inProgress == nil && !m.resting(n),
		}
	}
	for name := range m.groups {
		m.window[name] = append(m.window[name], now)
	}
}

// ever reports whether f has held since the group was last written, for its
// ledger and those of the others at one moment, and the nodes at the same or a
// later one: a writer reads them in this order.
func (m *monitor) ever(group string, f func(*scopes, moment) bool) bool {
	all := m.window[group]
	for i := range all {
		if i > 0 && all[i].scopes == all[i-1].scopes {
			continue // The pairs are the same as for the moment before.
		}
		if slices.ContainsFunc(all[i:], func(at moment) bool { return f(all[i].scopes, at) }) {
			return true
		}
	}
	return false
}

// added holds I1, I4, I10, I11 and the order of L1 for new slots.
func (m *monitor) added(name string, before, after *api.RebootGroup) {
	held := map[string]bool{}
	for _, s := range before.Status.Slots {
		held[s.Node] = true
	}
	limit := int(after.Spec.MaxUnavailable.IntVal)
	for _, s := range after.Status.Slots {
		if slices.ContainsFunc(before.Status.Slots, func(o api.Slot) bool { return o.Node == s.Node && o.NodeUID == s.NodeUID }) {
			continue
		}
		m.reserved++
		if len(after.Status.Slots) > limit {
			m.violated("I1", "%s: the group has %d slots, but at most %d are allowed", name, len(after.Status.Slots), limit)
		}
		if !m.ever(name, func(by *scopes, at moment) bool { return room(name, by, at, held, s.Node, limit) }) {
			m.violated("I4", "%s: a slot for %s beside %v, without room", name, s.Node, before.Status.Slots)
		}
		if !m.ever(name, func(by *scopes, at moment) bool { return by.mayHave(name, at.nodes[s.Node]) }) {
			m.violated("I10", "%s: a slot for %s, which others select, too, or hold a slot for", name, s.Node)
		}
		if !m.ever(name, func(_ *scopes, at moment) bool { return !at.closed }) {
			m.violated("I11", "%s: a slot for %s, while the gate was closed", name, s.Node)
		}
		m.order(name, before, s.Node, held, limit)
		held[s.Node] = true
	}
}

func room(group string, by *scopes, at moment, held map[string]bool, candidate string, limit int) bool {
	others := 0
	for name, n := range at.nodes {
		if n.unavailable && !held[name] && name != candidate && slices.Contains(by.selecting(n), group) {
			others++
		}
	}
	return len(held)+others < limit
}

// order finds an older request that could have had the slot all the time.
func (m *monitor) order(group string, before *api.RebootGroup, got string, held map[string]bool, limit int) {
	for _, w := range before.Status.Queue {
		if w.Node == got {
			return
		}
		if held[w.Node] || m.nodes[w.Node] == nil || m.nodes[w.Node].uid != string(w.NodeUID) {
			continue
		}
		if !m.ever(group, func(by *scopes, at moment) bool {
			n := at.nodes[w.Node]
			return !n.asking || !by.mayHave(group, n) || !room(group, by, at, held, w.Node, limit)
		}) {
			m.violated("L1", "%s: %s got a slot before %s, which is older", group, got, w.Node)
		}
	}
}
