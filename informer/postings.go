package informer

import (
	"slices"
)

// An index is what a state knows of its objects by one function of them.
type index[T Object] interface {
	// after returns the index after changes.
	after(changes []change[T]) index[T]
	// empty returns the index of no objects.
	empty() index[T]
}

// A posting is the objects of one value.
type posting[T Object] struct {
	root  *node[T]
	count int
}

// with returns p after a change to an item of its value.
func (p posting[T]) with(c change[T]) posting[T] {
	if root := p.root.swap(c.old, c.it); root != nil {
		return posting[T]{root, p.count}
	}
	if p.root.get(c.it.key) == nil {
		p.count++
	}
	return posting[T]{p.root.with(c.it), p.count}
}

func (p posting[T]) without(it *item[T]) posting[T] {
	if p.root.get(it.key) != nil {
		p.count--
	}
	return posting[T]{p.root.without(it.key), p.count}
}

// postings finds objects by the values that of gives them. They never change.
type postings[T Object, V comparable] struct {
	of   func(T) []V
	hash hasher[V]
	root *trie[V, posting[T]]
}

func newPostings[T Object, V comparable](of func(T) []V) *postings[T, V] {
	return &postings[T, V]{of: of, hash: newHasher[V]()}
}

func (p *postings[T, V]) after(changes []change[T]) index[T] { return p.apply(changes) }
func (p *postings[T, V]) empty() index[T]                    { return newPostings(p.of) }

func (p *postings[T, V]) get(value V) posting[T] {
	known, _ := p.root.get(p.hash.hash(value), value)
	return known
}

// many is how many changes are cheaper made value by value than one by one.
const many = 64

func (p *postings[T, V]) apply(changes []change[T]) *postings[T, V] {
	next := *p
	if len(changes) >= many {
		next.applyMany(changes)
		return &next
	}
	for _, c := range changes {
		var before, after []V
		if c.old != nil {
			before = p.of(c.old.object)
		}
		if c.it != nil {
			after = p.of(c.it.object)
		}
		for _, value := range before {
			if !slices.Contains(after, value) {
				next.edit(value, func(p posting[T]) posting[T] { return p.without(c.old) })
			}
		}
		for _, value := range after {
			next.edit(value, func(p posting[T]) posting[T] { return p.with(c) })
		}
	}
	return &next
}

// edit replaces the objects of one value.
func (p *postings[T, V]) edit(value V, edit func(posting[T]) posting[T]) {
	hash := p.hash.hash(value)
	known, _ := p.root.get(hash, value)
	if known = edit(known); known.root == nil {
		p.root = p.root.without(hash, value, 0)
		return
	}
	p.root = p.root.with(hash, value, known, 0)
}

// applyMany collects the changes of each value first.
func (p *postings[T, V]) applyMany(changes []change[T]) {
	edited := map[V]map[*item[T]]bool{} // whether the item stays
	note := func(it *item[T], stays bool) {
		for _, value := range p.of(it.object) {
			if edited[value] == nil {
				edited[value] = map[*item[T]]bool{}
			}
			edited[value][it] = stays
		}
	}
	for _, c := range changes {
		if c.old != nil {
			note(c.old, false)
		}
		if c.it != nil {
			note(c.it, true)
		}
	}
	for value, items := range edited {
		p.edit(value, func(known posting[T]) posting[T] {
			kept := known.root.appendItems(nil)
			kept = slices.DeleteFunc(kept, func(it *item[T]) bool {
				_, touched := items[it]
				return touched
			})
			for it, stays := range items {
				if stays {
					kept = append(kept, it)
				}
			}
			sortItems(kept)
			return posting[T]{build(kept), len(kept)}
		})
	}
}
