package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// Divide returns n ranges whose weights are as equal as possible without dividing a
// namespace: the heaviest range with two namespaces is halved until there are enough.
// If no range has two, the widest is halved, for future namespaces.
func Divide(namespaces map[string]int, n int) *Division {
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
	d := &Division{Heavy: heaviestOf(namespaces, all.weight)}
	for _, p := range pieces {
		d.bounds, d.Weights = append(d.bounds, p.First), append(d.Weights, p.weight)
	}
	return d
}

// piece is a range with its namespaces, sorted by their hash.
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

func sortByHash(all []*weighed) {
	slices.SortFunc(all, func(a, b *weighed) int { return cmp.Compare(a.hash, b.hash) })
}

// joined merges names that have the same hash. The names are sorted.
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

// packed divides a piece into at most n, none of which is heavier than necessary.
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

// within divides a piece into as few pieces as possible that are at most as heavy as
// limit; a single namespace may be heavier.
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

// cut returns a piece with the first n namespaces and one with the rest; neither is
// empty. The bound is halfway between the two namespaces.
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

// halves returns two pieces of about the same weight, or of the same width if there are
// fewer than two namespaces.
func (p *piece) halves() (a, b *piece) {
	if len(p.names) > 1 {
		weight, at := p.names[0].weight, 1
		for at < len(p.names)-1 && weight+p.names[at].weight/2 < p.weight/2 { // weights are rounded
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

// heaviest returns the number of the heaviest piece with two namespaces or more, or of
// the widest piece if there is none.
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
