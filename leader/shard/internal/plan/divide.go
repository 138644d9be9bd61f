package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// Divide returns n ranges, without dividing a namespace. namespaces has the
// weight of each namespace: its number of objects. The heaviest range is as
// light as possible. If fewer than n ranges are enough for that, the heaviest
// range with at least two namespaces is halved until there are n ranges. If no
// range has two, the widest range is halved, for future namespaces.
func Divide(namespaces map[string]int, n int) *Division {
	whole := &piece{Range: keyspace.Range{Last: math.MaxUint64}}
	for name, objects := range namespaces {
		whole.names = append(whole.names, &namespace{keyspace.Of(name), float64(objects)})
	}
	sortByHash(whole.names)
	whole.names = merge(whole.names)
	for _, w := range whole.names {
		whole.weight += w.weight
	}
	pieces := pack(whole, n)
	for len(pieces) < n {
		index := heaviest(pieces)
		a, b := pieces[index].halves()
		pieces[index] = a
		pieces = slices.Insert(pieces, index+1, b)
	}
	d := &Division{Heavy: heaviestOf(namespaces, whole.weight)}
	for _, p := range pieces {
		d.bounds, d.Weights = append(d.bounds, p.First), append(d.Weights, p.weight)
	}
	return d
}

// piece is a range and its namespaces, sorted by their hash.
type piece struct {
	keyspace.Range

	names  []*namespace
	weight float64
}

// namespace is the hash of a namespace with its weight. Slices hold pointers to
// it, because the compiler generates more code to sort structs than to sort
// pointers.
type namespace struct {
	hash   uint64
	weight float64
}

func sortByHash(names []*namespace) {
	slices.SortFunc(names, func(a, b *namespace) int { return cmp.Compare(a.hash, b.hash) })
}

// merge merges namespaces that have the same hash. names must be sorted.
func merge(names []*namespace) []*namespace {
	var result []*namespace
	for _, w := range names {
		if last := len(result) - 1; last >= 0 && result[last].hash == w.hash {
			result[last].weight += w.weight
		} else {
			result = append(result, w)
		}
	}
	return result
}

// pack divides a piece into at most n pieces, so that the heaviest of them is
// as light as possible.
func pack(whole *piece, n int) []*piece {
	low, high := 0.0, whole.weight
	best := []*piece{whole}
	for range 60 {
		limit := (low + high) / 2
		if pieces := whole.split(limit); len(pieces) <= n {
			best, high = pieces, limit
		} else {
			low = limit
		}
	}
	return best
}

// split divides a piece into as few pieces as possible that weigh at most
// limit. A piece with a single namespace may weigh more.
func (p *piece) split(limit float64) []*piece {
	var pieces []*piece
	rest := p
	weight, first := 0.0, 0
	for n, w := range p.names {
		if n > first && weight+w.weight > limit {
			var cut *piece
			cut, rest = rest.cut(n - first)
			pieces = append(pieces, cut)
			weight, first = 0, n
		}
		weight += w.weight
	}
	return append(pieces, rest)
}

// cut divides a piece into two: a has the first n namespaces, and b has all
// others. Neither may be empty. The bound between them is halfway between the
// hashes of the last namespace of a and the first namespace of b.
func (p *piece) cut(n int) (a, b *piece) {
	left, right := p.names[n-1].hash, p.names[n].hash
	middle := left + (right-left)/2
	a = &piece{Range: keyspace.Range{First: p.First, Last: middle}, names: p.names[:n]}
	b = &piece{Range: keyspace.Range{First: middle + 1, Last: p.Last}, names: p.names[n:]}
	for _, w := range a.names {
		a.weight += w.weight
	}
	b.weight = p.weight - a.weight
	return a, b
}

// halves returns two pieces of about the same weight. If p has fewer than two
// namespaces, they have the same width instead.
func (p *piece) halves() (a, b *piece) {
	if len(p.names) > 1 {
		weight, n := p.names[0].weight, 1
		for n < len(p.names)-1 && weight+p.names[n].weight/2 < p.weight/2 { // weights are rounded
			weight += p.names[n].weight
			n++
		}
		return p.cut(n)
	}
	middle := p.First + (p.Last-p.First)/2
	a = &piece{Range: keyspace.Range{First: p.First, Last: middle}}
	b = &piece{Range: keyspace.Range{First: middle + 1, Last: p.Last}}
	if full := a; len(p.names) == 1 {
		if p.names[0].hash > middle {
			full = b
		}
		full.names, full.weight = p.names, p.weight
	}
	return a, b
}

// heaviest returns the index of the heaviest piece with at least two
// namespaces. If no piece has two, it returns the index of the widest piece.
func heaviest(pieces []*piece) int {
	best := 0
	for n, p := range pieces {
		b := pieces[best]
		pDivisible, bDivisible := len(p.names) > 1, len(b.names) > 1
		switch {
		case pDivisible != bDivisible:
			if pDivisible {
				best = n
			}
		case pDivisible && p.weight > b.weight, !pDivisible && p.Last-p.First > b.Last-b.First:
			best = n
		}
	}
	return best
}
