package shard

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// load is the cost of a slot to its owner.
type load struct {
	Objects int64 `json:"o"` // of the primary kind that are cached
	// Busy is how many microseconds of each second the slot's reconciles take, with concurrent ones added up, if
	// that has been Measured.
	Busy     int64 `json:"b,omitempty"`
	Measured bool  `json:"m,omitempty"`
	// Cuts are the places where the range can be divided. Top is its heaviest namespace, if it has more than half
	// of the objects, with TopObjects. Only slots that are heavier than the others have them.
	Cuts       []cut  `json:"c,omitempty"`
	Top        string `json:"t,omitempty"`
	TopObjects int64  `json:"n,omitempty"`
}

// cut is a bound between two namespaces of a range.
type cut struct {
	At     uint64 `json:"a"` // the first hash of the second part
	Before int64  `json:"b"` // objects of the first part
}

// The bounds of the published costs.
const (
	loadBits    = 40       // of a number: no sum of them overflows or loses digits
	maxCuts     = 15       // of a slot: its range can be divided into 16 parts
	maxDetailed = 8        // slots with cuts
	maxLoadText = 96 << 10 // more than 1024 slots and all cuts take
)

// published is the state that a member publishes: its process, the version of the ranges, and its slots' costs.
type published struct {
	Process string
	Version int
	Slots   map[int]load
}

func (p published) String() string {
	text, _ := json.Marshal(p) // strings and numbers have no errors
	return string(text)
}

// parseLoads parses the published loads of a member. It returns nil if they come from a process other than the
// holder's or from another version of the ranges, or if another client has edited them.
func (d *division) parseLoads(text, holder string) map[int]load {
	var p published
	if len(text) > maxLoadText || json.Unmarshal([]byte(text), &p) != nil || p.Process == "" ||
		!strings.HasPrefix(holder, p.Process+".") || p.Version != d.version {
		return nil
	}
	for slot, l := range p.Slots {
		if !d.isCredible(slot, l) {
			return nil
		}
	}
	return p.Slots
}

// isCredible reports whether a slot can have this cost. Cuts must ascend, and no part may be empty.
func (d *division) isCredible(slot int, l load) bool {
	if slot < 0 || slot >= len(d.slots) || len(l.Cuts) > maxCuts ||
		min(l.Objects, l.Busy, l.TopObjects) < 0 || max(l.Objects, l.Busy) >= 1<<loadBits || l.TopObjects > l.Objects {
		return false
	}
	of := d.rangeOf(slot)
	last := cut{At: of.First}
	for _, c := range l.Cuts {
		if c.At <= last.At || c.At > of.Last || c.Before <= last.Before || c.Before >= l.Objects {
			return false
		}
		last = c
	}
	if l.Top == "" {
		return l.TopObjects == 0
	}
	return of.Contains(keyspace.Of(l.Top)) && len(validation.IsDNS1123Label(l.Top)) == 0
}

const (
	// idle is a twentieth of each second. While a replica's reconciles take less, the objects dominate the weight:
	// so little time is not worth a move, and cannot be measured well.
	idle = 50_000
	// few objects more than the mean are not worth a move.
	few = 10
)

// weigh returns the weight of each slot: the mean of its share of all objects and its share of all time in reconciles.
// For each member idle is added to that time, divided in proportion to the objects. byTime is the part of the weight
// that comes from measured time.
func weigh(of []load, members int) (weights, byTime []float64) {
	var objects, busy float64
	for _, l := range of {
		objects, busy = objects+float64(l.Objects), busy+float64(l.Busy)
	}
	weights, byTime = make([]float64, len(of)), make([]float64, len(of))
	little := idle * float64(max(1, members))
	for slot, l := range of {
		part := float64(l.Objects) / max(objects, 1)
		byTime[slot] = float64(l.Busy) / (busy + little) / 2
		weights[slot] = part/2 + little*part/(busy+little)/2 + byTime[slot]
	}
	return weights, byTime
}
