package diff

import (
	"bytes"
	"slices"
)

// identities are the members that identify the elements of a list, where its type does not
// say which, if every element has one and no two have the same.
var identities = []string{"name", "type", "key", "id"}

// maxCompared bounds how many elements are compared with how many others.
const maxCompared = 1 << 12

// A pairing says which elements of a list became which ones of another.
type pairing struct {
	// from has for each element of the new list its index in the old one, or -1.
	from []int
	// to has for each element of the old list its index in the new one, or -1.
	to []int
	// doubtful are old elements that may have been edited or removed. Either way gives
	// the same list only if the Go type knows all of their members.
	doubtful []int
}

// pair finds out what an edit did to the elements of a list:
//
//   - Equal elements are the same, in whatever order.
//   - Elements with the same key are the same.
//   - Without a key, elements are the same that stand between the same others and
//     have most in common.
func pair(a, b *tree) pairing {
	p := pairing{from: slices.Repeat([]int{-1}, len(b.elements)), to: slices.Repeat([]int{-1}, len(a.elements))}
	p.equal(a.elements, b.elements)
	if key := keyFor(a, b); key != nil {
		p.byKey(a.elements, b.elements, key)
	} else {
		p.byPlace(a.elements, b.elements)
	}
	slices.Sort(p.doubtful)
	p.doubtful = slices.Compact(p.doubtful)
	return p
}

func (p *pairing) join(i, j int) { p.to[i], p.from[j] = j, i }

// equal joins equal elements, at the same index first. If there were several, or are now,
// nobody knows which of them moved, are new or were removed.
func (p *pairing) equal(a, b []*tree) {
	olds, news := map[string][]int{}, map[string][]int{}
	for i, e := range a {
		text := string(e.append(nil, false))
		olds[text] = append(olds[text], i)
	}
	for j, e := range b {
		text := string(e.append(nil, false))
		news[text] = append(news[text], j)
	}
	for text, was := range olds {
		is := news[text]
		if len(is) > 0 && (len(was) != len(is) || len(was) > 1 && !slices.Equal(was, is)) {
			p.doubtful = append(p.doubtful, was...)
		}
		both := slices.DeleteFunc(slices.Clone(was), func(i int) bool { return !slices.Contains(is, i) })
		for _, i := range both {
			p.join(i, i)
		}
		was = slices.DeleteFunc(was, func(i int) bool { return slices.Contains(both, i) })
		is = slices.DeleteFunc(is, func(j int) bool { return slices.Contains(both, j) })
		for n := range min(len(was), len(is)) {
			p.join(was[n], is[n])
		}
	}
}

// keyFor returns the members that identify the elements of both lists, or nil.
func keyFor(a, b *tree) []string {
	var candidates [][]string
	if a.mergeKey != "" { // ports are identified by their protocol, too
		candidates = [][]string{{a.mergeKey}, {a.mergeKey, "protocol"}}
	}
	for _, name := range identities {
		candidates = append(candidates, []string{name})
	}
	for _, key := range candidates {
		if unique(a.elements, key) && unique(b.elements, key) {
			return key
		}
	}
	return nil
}

func unique(elements []*tree, key []string) bool {
	seen := make(map[string]bool, len(elements))
	for _, e := range elements {
		text := e.key(key)
		if text == "" || seen[text] {
			return false
		}
		seen[text] = true
	}
	return true
}

// key returns the JSON of those members, or "" if one is missing or may be.
func (t *tree) key(names []string) string {
	var text []byte
	for _, name := range names {
		m := t.member(name)
		if m == nil || m.shape != shapeFlat || m.zero() {
			return ""
		}
		text = append(append(text, m.text...), ' ')
	}
	return string(text)
}

// byKey joins elements of the same key. An element that was removed may have been renamed
// instead, if a new one has something of it.
func (p *pairing) byKey(a, b []*tree, key []string) {
	at := make(map[string]int, len(b))
	for j, e := range b {
		at[e.key(key)] = j
	}
	for i, e := range a {
		if j, ok := at[e.key(key)]; ok && p.to[i] < 0 && p.from[j] < 0 {
			p.join(i, j)
		}
	}
	for i := range a {
		for j := range b {
			if p.to[i] < 0 && (p.from[j] < 0 && mayBeRenamed(key, a[i], b[j]) || onlyDiffersIn(key, a[i], b[j])) {
				p.doubtful = append(p.doubtful, i)
			}
		}
	}
}

// mayBeRenamed reports whether b has one of the values of a that are not its key, or a has
// no other values.
func mayBeRenamed(key []string, a, b *tree) bool {
	hasValues := false
	for n, name := range a.names {
		if slices.Contains(key, name) {
			continue
		}
		if alike(a.members[n], b.member(name)) > 0 {
			return true
		}
		hasValues = hasValues || alike(a.members[n], a.members[n]) > 0
	}
	return !hasValues
}

func onlyDiffersIn(key []string, a, b *tree) bool {
	for _, names := range [][]string{a.names, b.names} {
		for _, name := range names {
			if !slices.Contains(key, name) && !sameTree(a.member(name), b.member(name)) {
				return false
			}
		}
	}
	return true
}

// byPlace joins elements between the same neighbours. What was removed while others were
// added may have been edited instead.
func (p *pairing) byPlace(a, b []*tree) {
	olds := gaps(p.to, func(i int) int { return p.to[i] })
	news := gaps(p.from, func(j int) int { return j })
	for after, was := range olds {
		p.gap(a, b, was, news[after])
	}
	if !slices.Contains(p.from, -1) {
		return
	}
	for i, j := range p.to {
		if j < 0 {
			p.doubtful = append(p.doubtful, i)
		}
	}
}

// gaps returns the elements without a partner, by the index in the new list of the last one
// before them that has a partner.
func gaps(partners []int, inNew func(int) int) map[int][]int {
	out, last := map[int][]int{}, -1
	for i, partner := range partners {
		if partner >= 0 {
			last = inNew(i)
		} else {
			out[last] = append(out[last], i)
		}
	}
	return out
}

// gap joins elements of one gap: in their order if there are as many as there were, and
// otherwise those that have more in common with each other than with any other.
func (p *pairing) gap(a, b []*tree, olds, news []int) {
	if len(olds)*len(news) > maxCompared {
		return
	}
	common := func(n, m int) int { return alike(a[olds[n]], b[news[m]]) }
	inOrder := len(olds) == len(news)
	for n := range olds {
		inOrder = inOrder && common(n, n) > 0
	}
	for n, i := range olds {
		if inOrder {
			p.join(i, news[n])
			continue
		}
		m := best(len(news), func(m int) int { return common(n, m) })
		if m >= 0 && best(len(olds), func(n int) int { return common(n, m) }) == n {
			p.join(i, news[m])
		}
	}
}

// best returns which of n has the highest value, or -1 if that is zero or not one alone.
func best(n int, value func(int) int) int {
	at, highest := -1, 0
	for i := range n {
		switch v := value(i); {
		case v > highest:
			at, highest = i, v
		case v == highest:
			at = -1
		}
	}
	return at
}

// alike counts the flat values that two elements have in common.
func alike(a, b *tree) int {
	if a == nil || b == nil || a.shape != b.shape {
		return 0
	}
	n := 0
	switch a.shape {
	case shapeFlat:
		if !a.zero() && bytes.Equal(a.text, b.text) {
			n = 1
		}
	case shapeObject:
		for i, name := range a.names {
			n += alike(a.members[i], b.member(name))
		}
	case shapeList:
		for i := range min(len(a.elements), len(b.elements)) {
			n += alike(a.elements[i], b.elements[i])
		}
	}
	return n
}
