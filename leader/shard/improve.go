package shard

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// survey is the state of all slots when ranges are decided on.
type survey struct {
	owners  []string // of each slot
	members []string
	loads   []load    // of each slot; all are known
	moved   time.Time // when a slot changed its owner, or a member came or left
}

// proposal is a division with its benefit: the weight of the heaviest replica relative to the mean, now and in the
// plan for the division.
type proposal struct {
	*division

	from, to float64
	changed  int // slots with a different range
}

// When a division is worth its moves.
const (
	tolerated = 1.2 // of the mean, for the heaviest replica
	worth     = 0.1 // by how much less it must have
)

// improve returns ranges that suit the present costs: the same ranges with different weights if moving slots is
// enough, or else ranges in which heavy ones are divided and light ones joined. It returns nil if none is worth
// the moves.
func (d *division) improve(s survey) *proposal {
	weights, _ := weigh(s.loads, len(s.members))
	now := shareOf(s.owners, s.members, weights)
	if now <= tolerated || !s.significant(weights) {
		return nil
	}
	best := d.propose(s, d.zones(s))
	if best.to > tolerated {
		if cut := d.propose(s, refine(d.zones(s), len(s.members))); cut.to <= best.to-worth {
			best = cut
		}
	}
	if best.from = now; best.to > now-worth {
		return nil
	}
	best.heavy = heavyOf(s.loads)
	return best
}

// propose returns the division into zones, with the weight of the heaviest replica in its plan.
func (d *division) propose(s survey, zones []*zone) *proposal {
	bounds, slots, weights := make([]uint64, len(zones)), make([]int, len(zones)), make([]float64, len(zones))
	for n, z := range zones {
		bounds[n], slots[n], weights[z.slot] = z.First, z.slot, rounded(z.weight)
	}
	p := &proposal{division: d.with(bounds, slots, weights)}
	owners := slices.Clone(s.owners)
	for slot, since := range p.since {
		if since > d.version {
			owners[slot] = unowned
			p.changed++
		}
	}
	plan := planByWeight(owners, s.members, p.weights)
	p.to = shareOf(plan.target, s.members, p.weights)
	return p
}

// significant reports whether the heaviest replica is far enough above the mean to justify a move.
func (s survey) significant(weights []float64) bool {
	_, heaviest := heaviestMember(s.owners, weights)
	var objects, busy, allObjects, allBusy float64
	for slot, l := range s.loads {
		allObjects, allBusy = allObjects+float64(l.Objects), allBusy+float64(l.Busy)
		if s.owners[slot] == heaviest {
			objects, busy = objects+float64(l.Objects), busy+float64(l.Busy)
		}
	}
	n := float64(len(s.members))
	return objects-allObjects/n >= few || busy-allBusy/n >= idle
}

// shareOf returns the weight of the heaviest member relative to the mean.
func shareOf(owners, members []string, weights []float64) float64 {
	most, _ := heaviestMember(owners, weights)
	return most * float64(len(members)) / max(sum(weights), 1e-9)
}

func sum(weights []float64) (total float64) {
	for _, w := range weights {
		total += w
	}
	return total
}

// heaviestMember returns the owner with the greatest weight; on a tie, the first by name.
func heaviestMember(owners []string, weights []float64) (most float64, heaviest string) {
	of := map[string]float64{}
	for slot, owner := range owners {
		of[owner] += weights[slot]
		if w := of[owner]; w > most || w == most && owner < heaviest {
			most, heaviest = w, owner
		}
	}
	return most, heaviest
}

// zone is the range of a slot.
type zone struct {
	keyspace.Range

	slot   int
	weight float64
	parts  []part // where it can be divided
}

// part is the piece of a zone before a cut.
type part struct {
	at     uint64
	before float64 // the weight before it
}

// zones returns the ranges of a division, sorted. The distribution of time within a slot is not measured: half of it
// counts as divided evenly, and half as the objects are. Once a range is divided, its time is measured.
func (d *division) zones(s survey) []*zone {
	all := make([]*zone, len(s.loads))
	weights, byTime := weigh(s.loads, len(s.members))
	for slot, l := range s.loads {
		z := &zone{Range: d.rangeOf(slot), slot: slot, weight: weights[slot]}
		for n, c := range l.Cuts {
			objects, evenly := float64(c.Before)/float64(l.Objects), float64(n+1)/float64(len(l.Cuts)+1)
			z.parts = append(z.parts, part{c.At, z.weight*objects + byTime[slot]/2*(evenly-objects)})
		}
		all[slot] = z
	}
	slices.SortFunc(all, func(a, b *zone) int { return cmp.Compare(a.First, b.First) })
	return all
}

// refine divides zones that are heavier than a quarter of a member's mean weight, the heaviest first, as long as there
// are two light neighbors to join instead.
func refine(zones []*zone, members int) []*zone {
	total := 0.0
	for _, z := range zones {
		total += z.weight
	}
	for range len(zones) * maxCuts {
		var heavy *zone
		for _, z := range zones {
			if len(z.parts) > 0 && (heavy == nil || z.weight > heavy.weight) {
				heavy = z
			}
		}
		if heavy == nil || heavy.weight <= total/float64(4*members) {
			break
		}
		light, weight := lightest(zones)
		if weight >= heavy.weight/2 {
			break
		}
		free := zones[light+1].slot
		zones[light] = join(zones[light], zones[light+1])
		zones = slices.Delete(zones, light+1, light+2)
		at := slices.Index(zones, heavy)
		a, b := heavy.halves(free)
		zones[at] = a
		zones = slices.Insert(zones, at+1, b)
	}
	return zones
}

// lightest returns the first of the two neighbors that weigh least, the narrowest on a tie. If there is only one zone,
// the weight is more than any.
func lightest(zones []*zone) (at int, weight float64) {
	weight = math.MaxFloat64
	width := uint64(math.MaxUint64)
	for n := range len(zones) - 1 {
		w, wide := zones[n].weight+zones[n+1].weight, zones[n+1].Last-zones[n].First
		if w < weight || w == weight && wide < width {
			at, weight, width = n, w, wide
		}
	}
	return at, weight
}

// join returns both zones as one, with the slot of the first.
func join(a, b *zone) *zone {
	return &zone{Range: keyspace.Range{First: a.First, Last: b.Last}, slot: a.slot, weight: a.weight + b.weight}
}

// halves divides the zone where both parts are most equal. The second gets the slot free.
func (z *zone) halves(free int) (a, b *zone) {
	far := func(p part) float64 { return math.Abs(p.before - z.weight/2) }
	middle := slices.MinFunc(z.parts, func(x, y part) int { return cmp.Compare(far(x), far(y)) })
	best := slices.Index(z.parts, middle)
	a = &zone{
		Range: keyspace.Range{First: z.First, Last: middle.at - 1},
		slot:  z.slot, weight: middle.before, parts: z.parts[:best],
	}
	b = &zone{Range: keyspace.Range{First: middle.at, Last: z.Last}, slot: free, weight: z.weight - middle.before}
	for _, p := range z.parts[best+1:] {
		b.parts = append(b.parts, part{p.at, p.before - middle.before})
	}
	return a, b
}

// heavyOf is heaviestOf for the namespaces that the loads name.
func heavyOf(loads []load) []namespaceShare {
	total, objects := 0.0, map[string]int64{}
	for _, l := range loads {
		total += float64(l.Objects)
		objects[l.Top] = l.TopObjects
	}
	return heaviestOf(objects, total)
}

// rounded returns a weight as it is recorded.
func rounded(weight float64) float64 {
	recorded, _ := strconv.ParseFloat(strconv.FormatFloat(weight, 'g', 4, 64), 64)
	return recorded
}
