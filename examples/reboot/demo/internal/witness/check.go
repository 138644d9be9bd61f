package witness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Invariants returns the names of the invariants that Check checks.
func Invariants() []string { return []string{"I1", "I2", "I3", "I4", "I5"} }

// A Violation is an invariant that did not hold at one resourceVersion.
type Violation struct {
	Invariant string
	Version   int64
	Text      string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at resourceVersion %d: %s", v.Invariant, v.Version, v.Text)
}

// Check checks the history of one group and its nodes, and returns all
// violations. It sorts a copy of the events by their versions first. Events with
// the same version keep their order.
func Check(history []Event) []Violation {
	sorted := slices.Clone(history)
	slices.SortStableFunc(sorted, func(a, b Event) int { return cmp.Compare(a.Version, b.Version) })
	r := &referee{nodes: map[string]*seen{}}
	for _, e := range sorted {
		r.version = e.Version
		switch {
		case e.Node != nil && e.Deleted:
			delete(r.nodes, e.Node.Name)
		case e.Node != nil:
			r.node(e.Node)
		case e.Deleted:
			r.ledger = nil
		default:
			r.replaced(e.Ledger)
		}
		r.checkNodes()
		r.moments = append(r.moments, r.unavailable())
	}
	return r.found
}

// seen is the newest state of a node, and the facts about its history that the
// checks need.
type seen struct {
	Node
	isDown   bool            // a reboot by the operator has begun, and the node is not back yet
	accepted map[int64]bool  // the epochs of accepted reboots
	boots    map[string]bool // the ids of all boots except the first
	first    string          // the id of the first boot
}

// A referee applies the events of a history one by one, and collects the
// violations.
type referee struct {
	version int64
	nodes   map[string]*seen
	ledger  *Ledger
	// moments contains the unavailable nodes after each event since the last
	// change of the ledger.
	moments [][]string
	found   []Violation
}

func (r *referee) violated(invariant, format string, args ...any) {
	r.found = append(r.found, Violation{invariant, r.version, fmt.Sprintf(format, args...)})
}

func (r *referee) node(n *Node) {
	s := r.nodes[n.Name]
	if s == nil || s.UID != n.UID {
		s = &seen{accepted: map[int64]bool{}, boots: map[string]bool{}, first: n.Boot}
		r.nodes[n.Name] = s
	}
	s.Node = *n
	if n.Rebooting {
		s.accepted[n.Epoch] = true
		s.isDown = true
	}
	if s.isDown && !n.Rebooting && n.Ready == "True" && n.Boot == n.NewBoot {
		s.isDown = false
	}
	for _, boot := range []string{n.Boot, n.NewBoot} {
		if boot != "" && boot != s.first {
			if s.first == "" {
				s.first = boot
				continue
			}
			s.boots[boot] = true
		}
	}
	if len(s.boots) > len(s.accepted) {
		r.violated("I5", "node %s booted %d times for %d accepted reboots", n.Name, len(s.boots), len(s.accepted))
	}
}

// replaced sets the ledger to its new state l, and checks whether there was
// room for the slots that l adds.
func (r *referee) replaced(l *Ledger) {
	old := r.ledger
	if old == nil {
		old = &Ledger{Name: l.Name, Max: l.Max}
	}
	r.ledger = l
	var added []Slot
	for _, s := range l.Slots {
		if !old.contains(s.UID) {
			added = append(added, s)
		}
	}
	if len(l.Slots) > int(l.Max) && len(added) > 0 {
		r.violated("I1", "the group has %d slots, but at most %d are allowed", len(l.Slots), l.Max)
	}
	room := func(unavailable []string) bool { return fits(old, added, l.Max, unavailable) }
	if len(added) > 0 && !slices.ContainsFunc(r.moments, room) {
		r.violated("I4", "slots %v were added to %v although no slot was free", added, old.Slots)
	}
	r.moments = nil
}

// fits reports whether the added slots could be reserved, one after the other.
// old is the ledger before that. limit is the number of slots that the group
// allows, and unavailable are the nodes that were unavailable at that time.
func fits(old *Ledger, added []Slot, limit int64, unavailable []string) bool {
	holders := map[string]bool{}
	for _, s := range old.Slots {
		holders[s.Node] = true
	}
	for _, s := range added {
		count := 0
		for _, name := range unavailable {
			if !holders[name] && name != s.Node {
				count++
			}
		}
		if len(holders)+count >= int(limit) {
			return false
		}
		holders[s.Node] = true
	}
	return true
}

// checkNodes checks the invariants I2 and I3, which must hold after every
// event.
func (r *referee) checkNodes() {
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[name]
		if r.ledger != nil && r.ledger.contains(n.UID) {
			continue
		}
		switch {
		case n.Told || n.Rebooting:
			r.violated("I2", "node %s was told to reboot, or is rebooting, without a slot", name)
		case n.isDown:
			r.violated("I3", "node %s is not back from its reboot, and has no slot", name)
		}
	}
}

func (r *referee) unavailable() (names []string) {
	for name, n := range r.nodes {
		if n.Ready != "True" {
			names = append(names, name)
		}
	}
	return names
}
