package shard

import (
	"cmp"
	"math"
	"slices"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// division is the ranges of all slots: range n begins at bounds[n], ends before
// bounds[n+1], and is that of slots[n]. All replicas come to have the same.
type division struct {
	// version counts from 1 the divisions with other ranges than the last. since is, by slot, the version from which the
	// slot's range is what it is.
	version int
	since   []int
	uid     string // of the record of the configuration

	bounds  []uint64         // ascending; the first is 0
	slots   []int            // each once
	weights []float64        // by slot
	heavy   []namespaceShare // the heaviest first
}

// piece is a range with its namespaces, which are sorted by their hash.
type piece struct {
	keyspace.Range

	names  []*weighed
	weight float64
}

// weighed is a namespace. Pointers to it are sorted: code that sorts structs is large.
type weighed struct {
	hash   uint64
	weight float64
}

// divide returns n ranges whose weights are as equal as namespaces allow, which are not
// divided: the heaviest range that has two is halved until there are enough. Then the
// widest is, for namespaces to come.
func divide(namespaces map[string]int, n int) division {
	all := &piece{Range: keyspace.Range{Last: math.MaxUint64}}
	for name, objects := range namespaces {
		all.names = append(all.names, &weighed{keyspace.Of(name), float64(objects)})
	}
	sortByHash(all.names)
	all.names = joined(all.names)
	for _, w := range all.names {
		all.weight += w.weight
	}
	pieces := packed(all, n)
	for len(pieces) < n {
		at := heaviest(pieces)
		a, b := pieces[at].halves()
		pieces[at] = a
		pieces = slices.Insert(pieces, at+1, b)
	}
	d := division{version: 1, heavy: heaviestOf(namespaces)}
	for slot, p := range pieces {
		d.bounds, d.slots = append(d.bounds, p.First), append(d.slots, slot)
		d.weights, d.since = append(d.weights, p.weight), append(d.since, 1)
	}
	return d
}

// with returns the next division: with these bounds, whose slots are in their order, and
// weights by slot. It is of the next version if a slot gets a range that it does not have
// now. The arguments are retained.
func (d *division) with(bounds []uint64, slots []int, weights []float64) *division {
	next := &division{
		version: d.version, since: slices.Clone(d.since), bounds: bounds, slots: slots, weights: weights, heavy: d.heavy,
	}
	for slot := range d.slots {
		if next.rangeOf(slot) != d.rangeOf(slot) {
			next.version = d.version + 1
			next.since[slot] = next.version
		}
	}
	return next
}

// moved returns the slots whose ranges came with this version, ascending; none with the
// first.
func (d *division) moved() (slots []int) {
	for slot, since := range d.since {
		if since == d.version && d.version > 1 {
			slots = append(slots, slot)
		}
	}
	return slots
}

func sortByHash(all []*weighed) {
	slices.SortFunc(all, func(a, b *weighed) int { return cmp.Compare(a.hash, b.hash) })
}

// joined returns names, which are sorted, with those of one hash as one.
func joined(names []*weighed) []*weighed {
	var all []*weighed
	for _, w := range names {
		if last := len(all) - 1; last >= 0 && all[last].hash == w.hash {
			all[last].weight += w.weight
		} else {
			all = append(all, w)
		}
	}
	return all
}

// packed divides a piece into n at most, none of which is heavier than necessary.
func packed(all *piece, n int) []*piece {
	low, high := 0.0, all.weight
	best := []*piece{all}
	for range 60 {
		limit := (low + high) / 2
		if pieces := all.within(limit); len(pieces) <= n {
			best, high = pieces, limit
		} else {
			low = limit
		}
	}
	return best
}

// within divides a piece into as few as possible that are not heavier than limit, but
// for single namespaces.
func (p *piece) within(limit float64) []*piece {
	var pieces []*piece
	rest := p
	weight, from := 0.0, 0
	for at, w := range p.names {
		if at > from && weight+w.weight > limit {
			var cut *piece
			cut, rest = rest.cut(at - from)
			pieces = append(pieces, cut)
			weight, from = 0, at
		}
		weight += w.weight
	}
	return append(pieces, rest)
}

// cut returns a piece with the first n namespaces and one with the others, which
// there are. The bound is in the middle between two.
func (p *piece) cut(n int) (a, b *piece) {
	before, after := p.names[n-1].hash, p.names[n].hash
	middle := before + (after-before)/2
	a = &piece{Range: keyspace.Range{First: p.First, Last: middle}, names: p.names[:n]}
	b = &piece{Range: keyspace.Range{First: middle + 1, Last: p.Last}, names: p.names[n:]}
	for _, w := range a.names {
		a.weight += w.weight
	}
	b.weight = p.weight - a.weight
	return a, b
}

// halves returns two pieces of about the same weight; of the same width if there are
// less than two namespaces.
func (p *piece) halves() (a, b *piece) {
	if len(p.names) > 1 {
		weight, at := p.names[0].weight, 1
		for at < len(p.names)-1 && weight+p.names[at].weight/2 < p.weight/2 {
			weight += p.names[at].weight
			at++
		}
		return p.cut(at)
	}
	middle := p.First + (p.Last-p.First)/2
	a = &piece{Range: keyspace.Range{First: p.First, Last: middle}}
	b = &piece{Range: keyspace.Range{First: middle + 1, Last: p.Last}}
	if with := a; len(p.names) == 1 {
		if p.names[0].hash > middle {
			with = b
		}
		with.names, with.weight = p.names, p.weight
	}
	return a, b
}

// heaviest returns the number of the heaviest piece with two namespaces or more; if
// there is none, of the widest.
func heaviest(pieces []*piece) int {
	best := 0
	for n, p := range pieces {
		b := pieces[best]
		several, more := len(p.names) > 1, len(b.names) > 1
		switch {
		case several != more:
			if several {
				best = n
			}
		case several && p.weight > b.weight, !several && p.Last-p.First > b.Last-b.First:
			best = n
		}
	}
	return best
}

// slotOf returns the slot of a hash.
func (d *division) slotOf(hash uint64) int {
	at, found := slices.BinarySearch(d.bounds, hash)
	if !found {
		at--
	}
	return d.slots[at]
}

// rangeOf returns the range of a slot.
func (d *division) rangeOf(slot int) keyspace.Range {
	at := slices.Index(d.slots, slot)
	r := keyspace.Range{First: d.bounds[at], Last: math.MaxUint64}
	if at+1 < len(d.bounds) {
		r.Last = d.bounds[at+1] - 1
	}
	return r
}

// planByWeight assigns the slots by their weights: those without owner to the lightest
// member, the heaviest slot first. Then slots move from the heaviest member to the
// lightest, until neither is far from the mean, or none can come closer to it.
func planByWeight(owners, members []string, weights []float64) plan {
	p := plan{target: slices.Clone(owners), owned: map[string]int{}}
	if len(members) == 0 {
		return p
	}
	least := slices.Max(weights)/1000 + 1e-9 // what empty ranges weigh: they are shared out, too
	b := balance{
		shares: sharesOf(owners, members), load: make([]float64, len(members)),
		weight: func(slot int) float64 { return weights[slot] + least },
	}
	for m, of := range b.slots {
		for _, slot := range of {
			b.load[m] += b.weight(slot)
		}
	}
	total := 0.0
	for slot, owner := range owners {
		if _, member := slices.BinarySearch(b.members, owner); member || owner == unowned {
			total += b.weight(slot)
		}
	}
	slices.SortStableFunc(b.free, func(x, y int) int { return cmp.Compare(b.weight(y), b.weight(x)) })
	for _, slot := range b.free {
		to := b.lightest()
		b.give(slot, to)
		b.load[to] += b.weight(slot)
	}
	for b.even(total / float64(len(members))) {
	}
	b.write(p.target)
	return p
}

// balance is shares with their weights.
type balance struct {
	shares

	load   []float64 // of each member
	weight func(slot int) float64
}

// lightest returns the member with the least load; of equal ones the first by name.
func (b *balance) lightest() int {
	least := 0
	for m, load := range b.load {
		if load < b.load[least] {
			least = m
		}
	}
	return least
}

// Parts of the mean load: no slot moves while the heaviest member has at most the
// first, and the lightest, which may have joined, at least the second.
const (
	heavy = 1.1
	light = 0.5
)

// even moves one slot to the lightest member, that which makes the two most equal, from
// the heaviest that has one light enough: a single slot may be heavier than all that
// another member has. It reports false if all are near the mean, or no slot helps.
func (b *balance) even(mean float64) bool {
	least := b.lightest()
	limit := heavy * mean
	if b.load[least] < light*mean {
		limit = mean
	}
	var above []int
	for m, load := range b.load {
		if load > limit {
			above = append(above, m)
		}
	}
	slices.SortStableFunc(above, func(x, y int) int { return cmp.Compare(b.load[y], b.load[x]) })
	return slices.ContainsFunc(above, func(from int) bool { return b.relieve(from, least) })
}

// relieve moves one slot of a member to the lightest. It reports false if none is light
// enough to make the two more equal.
func (b *balance) relieve(from, least int) bool {
	difference := (b.load[from] - b.load[least]) * (1 - 1e-6) // sums are rounded: a slot must not go to and fro
	best, closest := -1, math.Inf(1)
	for at, slot := range b.slots[from] {
		w := b.weight(slot)
		far := math.Abs(w - difference/2)
		if w < difference && (far < closest || far == closest && slot < b.slots[from][best]) {
			best, closest = at, far
		}
	}
	if best < 0 {
		return false
	}
	moved := b.weight(b.slots[from][best])
	b.move(from, best, least)
	b.load[from] -= moved
	b.load[least] += moved
	return true
}
