package diff

import (
	"bytes"
	"slices"
)

// identities are members that may identify the elements of a list whose type
// does not declare a merge key, or whose merge key is not unique. A member
// identifies the elements of a list if every element has it and its values are
// unique.
var identities = []string{"name", "type", "key", "id"}

// maxCompared limits the number of element pairs that are compared in one gap.
const maxCompared = 1 << 12

// A pairing says which element of the old list became which element of the new
// list.
type pairing struct {
	// oldIndex has, for each element of the new list, its index in the old one,
	// or -1.
	oldIndex []int
	// newIndex has, for each element of the old list, its index in the new one,
	// or -1.
	newIndex []int
	// doubtful lists old elements that may have been either edited or removed.
	// The patches for an edit and for a removal have the same result only if
	// the Go type has all members of these elements.
	doubtful []int
}

// pair finds out how an edit turned the elements of the list a into the
// elements of the list b:
//
//   - Equal elements are the same element, in any order.
//   - Elements with the same key are the same element.
//   - Without a key, the elements between the same neighbours are compared, and
//     the ones with the most in common are the same element.
func pair(a, b *tree) pairing {
	p := pairing{oldIndex: slices.Repeat([]int{-1}, len(b.elements)), newIndex: slices.Repeat([]int{-1}, len(a.elements))}
	p.joinEqual(a.elements, b.elements)
	if key := keyFor(a, b); key != nil {
		p.joinByKey(a.elements, b.elements, key)
	} else {
		p.joinByPlace(a.elements, b.elements)
	}
	slices.Sort(p.doubtful)
	p.doubtful = slices.Compact(p.doubtful)
	return p
}

func (p *pairing) join(i, j int) { p.newIndex[i], p.oldIndex[j] = j, i }

// joinEqual joins equal elements, first the ones at the same index. If an
// element occurs several times, and its places or its number have changed, its
// occurrences are doubtful, because it cannot be known which of them moved, are
// new or were removed.
func (p *pairing) joinEqual(a, b []*tree) {
	olds, news := map[string][]int{}, map[string][]int{}
	for i, e := range a {
		text := string(e.append(nil, false))
		olds[text] = append(olds[text], i)
	}
	for j, e := range b {
		text := string(e.append(nil, false))
		news[text] = append(news[text], j)
	}
	for text, oldPlaces := range olds {
		newPlaces := news[text]
		differ := len(oldPlaces) != len(newPlaces) || len(oldPlaces) > 1 && !slices.Equal(oldPlaces, newPlaces)
		if len(newPlaces) > 0 && differ {
			p.doubtful = append(p.doubtful, oldPlaces...)
		}
		unmoved := slices.DeleteFunc(slices.Clone(oldPlaces), func(i int) bool { return !slices.Contains(newPlaces, i) })
		for _, i := range unmoved {
			p.join(i, i)
		}
		oldPlaces = slices.DeleteFunc(oldPlaces, func(i int) bool { return slices.Contains(unmoved, i) })
		newPlaces = slices.DeleteFunc(newPlaces, func(j int) bool { return slices.Contains(unmoved, j) })
		for n := range min(len(oldPlaces), len(newPlaces)) {
			p.join(oldPlaces[n], newPlaces[n])
		}
	}
}

// keyFor returns the members that identify the elements of both lists, or nil.
func keyFor(a, b *tree) []string {
	var candidates [][]string
	if a.mergeKey != "" { // two ports may have one number and different protocols
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

// unique reports whether every element has the members of key, and no two
// elements have the same values of them.
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

// key returns the JSON of the members of the given names. It returns "" if one
// of them is missing, may be missing, or is an object or a list.
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

// joinByKey joins elements that have the same key. An element whose key has
// disappeared was either removed or renamed. joinByKey adds it to p.doubtful if
// it may have been renamed: if a new element shares some of its values, if it
// has no values outside the key, or if another element differs from it only in
// the key. For example, a container that disappears while a container with the
// same image is added may have been renamed.
func (p *pairing) joinByKey(a, b []*tree, key []string) {
	places := make(map[string]int, len(b))
	for j, e := range b {
		places[e.key(key)] = j
	}
	for i, e := range a {
		if j, ok := places[e.key(key)]; ok && p.newIndex[i] < 0 && p.oldIndex[j] < 0 {
			p.join(i, j)
		}
	}
	for i := range a {
		for j := range b {
			if p.newIndex[i] < 0 && (p.oldIndex[j] < 0 && mayBeRenamed(key, a[i], b[j]) || onlyDiffersIn(key, a[i], b[j])) {
				p.doubtful = append(p.doubtful, i)
			}
		}
	}
}

// mayBeRenamed reports whether the new element b may be the old element a after
// its key was changed. It returns true if both have a common value outside the
// key, or if the element a has no values outside the key.
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

// onlyDiffersIn reports whether a and b are equal except for their keys.
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

// joinByPlace joins elements between the same neighbours. If elements were both
// removed and added, the removed ones are doubtful, because they may have been
// edited instead.
func (p *pairing) joinByPlace(a, b []*tree) {
	olds := gaps(p.newIndex, func(i int) int { return p.newIndex[i] })
	news := gaps(p.oldIndex, func(j int) int { return j })
	for predecessor, elements := range olds {
		p.joinGap(a, b, elements, news[predecessor])
	}
	if !slices.Contains(p.oldIndex, -1) {
		return
	}
	for i, j := range p.newIndex {
		if j < 0 {
			p.doubtful = append(p.doubtful, i)
		}
	}
}

// gaps groups the elements of one list that have no partner in the other list.
// partners has the index of the partner of each element, or -1, and inNew
// returns the index of an element in the new list. The key of a group is the
// index, in the new list, of the last element before the group that has a
// partner. Its value has the indices of the elements of the group.
func gaps(partners []int, inNew func(int) int) map[int][]int {
	groups, predecessor := map[int][]int{}, -1
	for i, partner := range partners {
		if partner >= 0 {
			predecessor = inNew(i)
		} else {
			groups[predecessor] = append(groups[predecessor], i)
		}
	}
	return groups
}

// joinGap joins elements of one gap. If the gap has as many elements as before,
// and each has a value in common with the element now in its place, they are
// joined in order. Otherwise two elements are joined if they have more in
// common with each other than with any other element. joinGap joins no elements
// of a gap that has more than maxCompared pairs.
func (p *pairing) joinGap(a, b []*tree, olds, news []int) {
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

// best returns the index below n with the highest value, or -1 if the highest
// value is zero or not unique.
func best(n int, value func(int) int) int {
	winner, highest := -1, 0
	for i := range n {
		switch v := value(i); {
		case v > highest:
			winner, highest = i, v
		case v == highest:
			winner = -1
		}
	}
	return winner
}

// alike counts the flat values, except zero values, that two elements have in
// common.
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
