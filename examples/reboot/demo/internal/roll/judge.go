package roll

import (
	"fmt"
	"slices"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/demo/internal/witness"
)

func hasSlot(l witness.Ledger, n witness.Node) bool {
	return slices.ContainsFunc(l.Slots, func(s witness.Slot) bool { return s.UID == n.UID })
}

func (r *roll) draw() {
	nodes, ledger := r.witness.State()
	f := frame{slots: len(ledger.Slots), max: r.options.Max, done: r.done(), violations: r.witness.Violations()}
	for _, m := range r.machines {
		n := nodes[m.name]
		boots, isUp := m.state()
		nodeRow := row{name: m.name, state: stateOf(n, hasSlot(ledger, n), boots, isUp), machine: "up", ready: n.Ready}
		if !isUp {
			nodeRow.machine = "off"
		}
		if hasSlot(ledger, n) {
			nodeRow.slot = "held"
		}
		f.rows = append(f.rows, nodeRow)
	}
	r.mu.Lock()
	r.mostSlots = max(r.mostSlots, f.slots)
	r.mu.Unlock()
	r.show.draw(f)
}

func (r *roll) allReady() bool {
	nodes, _ := r.witness.State()
	for _, m := range r.machines {
		if nodes[m.name].Ready != "True" {
			return false
		}
	}
	return true
}

// done returns the number of nodes that have rebooted and have released their
// slot.
func (r *roll) done() int {
	nodes, ledger := r.witness.State()
	count := 0
	for _, m := range r.machines {
		n := nodes[m.name]
		if n.Done > 0 && !n.Needed && !n.Told && !n.Rebooting && !hasSlot(ledger, n) {
			count++
		}
	}
	return count
}

func (r *roll) allDone() bool { return r.done() == len(r.machines) }

// judge returns a verdict from the results of the witness, the machines and the
// nodes.
func (r *roll) judge(took time.Duration, killed []string) Verdict {
	r.draw()
	violations, events, err := r.witness.Verdict()
	nodes, _ := r.witness.State()
	v := Verdict{Nodes: len(r.machines), Max: r.options.Max, Took: took, Events: events, Killed: killed}
	r.mu.Lock()
	v.MostSlots, v.Faults = r.mostSlots, slices.Clone(r.faults)
	r.mu.Unlock()
	if err != nil {
		v.Faults = append(v.Faults, err.Error())
	}
	for _, violation := range violations {
		v.Faults = append(v.Faults, violation.String())
	}
	for _, m := range r.machines {
		boots, _ := m.state()
		n := nodes[m.name]
		switch {
		case boots != 2:
			v.Faults = append(v.Faults, fmt.Sprintf("%s has rebooted %d times instead of once", m.name, boots-1))
		case n.Unschedulable:
			v.Faults = append(v.Faults, m.name+" was left cordoned")
		default:
			v.Rebooted++
		}
	}
	if want := 3; !r.options.Calm && len(killed) < want {
		v.Faults = append(v.Faults, fmt.Sprintf("only %d of %d processes were killed", len(killed), want))
	}
	return v
}
