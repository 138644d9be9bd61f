package diff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxOperations is the largest number of operations that a server accepts.
	maxOperations = 10_000
	// maxTested limits the length of a value that identifies an element.
	maxTested = 256
	// maxGuesses is the largest guess.maxEmpty that is tried. It bounds the
	// number of patches for one edit.
	maxGuesses = 3
)

// operations writes a JSON patch, RFC 6902, from one tree to another. The
// caller must add a condition: the server must refuse the patch unless its
// object is still as it was read. That object may have members that the Go type
// does not know. Where the patch would lose such members, it fails instead:
//
//   - A patch addresses elements of lists by their index. Before it changes an
//     element, it tests that the same element is still at that index.
//   - Before a patch adds a new list or a new object, it tests that the server
//     has no value in that place.
//   - If an element may have been either edited or removed, a patch tests that
//     the element has no members that the Go type does not know.
type operations struct {
	buf   []byte
	path  []byte
	count int
	exact bool // whether servers encode the object by the same Go type
	guess
	guessedEmpty, guessedNil bool // the patch assumes that empty objects, or nil ones, are missing
	// fields holds the paths of the values that the patch depends on, such as
	// lists and new objects.
	fields []string
}

// A guess is an assumption about which objects exist on the server, for objects
// where the Go type does not show whether they do.
type guess struct {
	// maxEmpty says that an empty struct exists on the server if it is inside
	// fewer than maxEmpty other empty structs.
	maxEmpty int
	// hidden says that nil pointers and maps stand for objects that were cut
	// out of the cache.
	hidden bool
}

// listsByIndex returns the patch from original to edited. Its Fallbacks are the
// patches to try if the server refuses it.
func listsByIndex(original, edited any, s Style) (Patch, error) {
	a, b, err := treesOf(original, edited, s)
	if err != nil {
		return Patch{}, err
	}
	p := Patch{Style: Operations}
	for g, hasMore := (guess{}), true; hasMore; {
		o := operations{buf: []byte{'['}, exact: s == Strategic, guess: g}
		o.object(a, b, 0)
		if o.count > maxOperations {
			return Patch{}, fmt.Errorf("the edit of %s takes %d operations, but a server accepts only %d: edit in several steps",
				strings.Join(o.fields, ", "), o.count, maxOperations)
		}
		if o.count == 0 {
			return Patch{}, nil
		}
		p.Fields = o.fields // the last guess names the most fields
		o.buf = append(o.buf, ']')
		if p.Data == nil {
			p.Data = o.buf
		} else {
			p.Fallbacks = append(p.Fallbacks, o.buf)
		}
		g, hasMore = o.nextGuess()
	}
	for _, names := range [][]string{a.names, b.names} {
		for _, name := range names {
			p.note(name, !sameTree(a.member(name), b.member(name)))
		}
	}
	return p, nil
}

// nextGuess returns the guess to try after the guess of o. It returns false if
// there is no further guess.
func (o *operations) nextGuess() (guess, bool) {
	switch {
	case o.guessedEmpty && o.maxEmpty < maxGuesses:
		return guess{o.maxEmpty + 1, o.hidden}, true
	case o.guessedNil:
		return guess{0, true}, true
	default:
		return guess{}, false
	}
}

// op writes one operation on the current path. value is JSON, or nil for an
// operation without a value.
func (o *operations) op(name string, value []byte) {
	if o.count++; o.count > 1 {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(append(append(o.buf, `{"op":"`...), name...), `","path":`...)
	o.buf = AppendString(o.buf, string(o.path))
	if value != nil {
		o.buf = append(append(o.buf, `,"value":`...), value...)
	}
	o.buf = append(o.buf, '}')
}

// move moves an element of the list at the current path from index source to
// index target.
func (o *operations) move(source, target int) {
	origin := fmt.Sprintf("%s/%d", o.path, source)
	o.atMember(strconv.Itoa(target), func() {
		o.op("move", nil)
		o.buf = append(o.buf[:len(o.buf)-1], `,"from":`...)
		o.buf = append(AppendString(o.buf, origin), '}')
	})
}

var (
	pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
	fieldNames     = strings.NewReplacer("/", ".", "~1", "/", "~0", "~") // turns a JSON pointer into the names of fields
)

// atMember calls f with the path of a member or an element as the current path.
func (o *operations) atMember(name string, f func()) {
	n := len(o.path)
	o.path = append(append(o.path, '/'), pointerEscapes.Replace(name)...)
	f()
	o.path = o.path[:n]
}

// addDependency records that the patch depends on the value at the current
// path.
func (o *operations) addDependency() {
	field := fieldNames.Replace(strings.TrimPrefix(string(o.path), "/"))
	if !slices.Contains(o.fields, field) {
		o.fields = append(o.fields, field)
	}
}

// object writes the members that differ. unsure is the number of enclosing
// objects that may be missing on the server.
func (o *operations) object(a, b *tree, unsure int) {
	o.testShape(a)
	for i, name := range b.names {
		if b.members[i].shape != shapeNull {
			o.atMember(name, func() { o.value(a.member(name), b.members[i], unsure) })
		}
	}
	if slices.ContainsFunc(a.members, func(m *tree) bool { return m.respelled }) {
		o.addDependency()
	}
	for i, name := range a.names {
		if b.member(name) == nil {
			o.atMember(name, func() { o.value(a.members[i], nil, unsure) })
		}
	}
}

// value writes the change of the value at the current path.
func (o *operations) value(a, b *tree, unsure int) {
	switch {
	case sameTree(a, b):
	case b.absent():
		o.remove(a)
	case b.shape == shapeFlat:
		o.set(a, b)
	case b.shape == shapeList && a != nil && a.shape == shapeList:
		o.list(a, b, unsure)
	case b.shape == shapeObject && (a == nil || a.shape == shapeNull || a.shape == shapeObject):
		o.nested(a, b, unsure)
	case a == nil || a.shape == shapeNull:
		o.create(b.append(nil, false))
	default: // the shapes differ
		o.set(a, b)
	}
}

// set writes operations that put the value b in the place of a. If the server
// may have the key of an entry in another spelling, set first writes a removal
// of a. The removal fails if the server has no entry with the key as it is
// written here. Without the removal, the server would add b as a second entry.
func (o *operations) set(a, b *tree) {
	if a != nil && a.respelled {
		o.op("remove", nil)
	}
	o.op("add", b.append(nil, false))
}

// nested writes the changes inside an object, or creates the object if it is
// missing.
func (o *operations) nested(a, b *tree, unsure int) {
	isNil := a == nil || a.shape == shapeNull
	switch {
	case !isNil && a.sure:
		o.object(a, b, unsure)
		return
	case !isNil && unsure < o.maxEmpty:
		o.object(a, b, unsure+1)
		return
	case isNil && o.hidden:
		o.object(&tree{shape: shapeObject}, b, unsure)
		return
	case isNil:
		o.guessedNil = true
	default:
		o.guessedEmpty = true
	}
	o.create(b.difference(a).append(nil, false))
}

// difference returns an object with the members of t that differ from a.
func (t *tree) difference(a *tree) *tree {
	if t.shape != shapeObject || a == nil || a.shape != shapeObject {
		return t
	}
	result := &tree{shape: shapeObject}
	for i, name := range t.names {
		if old := a.member(name); old == nil || !sameTree(old, t.members[i]) {
			result.add(name, t.members[i].difference(old))
		}
	}
	return result
}

// create writes a list or an object that must be missing on the server.
func (o *operations) create(value []byte) {
	o.addDependency()
	o.op("test", []byte("null"))
	o.op("add", value)
}

// remove removes the value at the current path. If the value is a list or a
// map, remove removes only the elements that were read, and the patch fails if
// the server has more elements.
func (o *operations) remove(a *tree) {
	switch {
	case a.shape == shapeObject && (a.byKey || a.isMap):
		for _, name := range a.names {
			o.atMember(name, func() { o.op("remove", nil) })
		}
		if !a.byKey {
			o.addDependency()
			o.op("test", []byte("{}"))
			o.op("remove", nil)
		}
	case a.byMember:
		o.testShape(a)
		for i, name := range a.names {
			if m := a.members[i]; !m.absent() && !m.zero() {
				o.atMember(name, func() { o.remove(m) })
			}
		}
	case a.shape == shapeList && a.flatList():
		o.addDependency()
		o.testFlat(a)
		o.op("remove", nil)
	case a.shape == shapeList:
		o.list(a, &tree{shape: shapeList}, 0)
		o.op("test", []byte("[]"))
		o.op("remove", nil)
	default:
		o.op("remove", nil)
	}
}

// list writes the change of a list. It sends a list of flat elements as a whole
// if servers write the elements as the Go type does, or if no old element
// remains.
func (o *operations) list(a, b *tree, unsure int) {
	o.addDependency()
	o.testShape(a)
	flat := a.flatList() && b.flatList()
	if flat {
		o.testFlat(a)
	}
	if flat && (a.fromNil || a.plainList()) {
		o.set(a, b)
		return
	}
	p := pair(a, b)
	if flat && !slices.ContainsFunc(p.newIndex, func(j int) bool { return j >= 0 }) {
		o.set(a, b)
		return
	}
	o.elements(a, b, p, unsure)
}

// elements writes the changes of a list's elements: first edited elements, then
// removed ones, then new and moved ones.
func (o *operations) elements(a, b *tree, p pairing, unsure int) {
	steps := arrange(p)
	o.testTouched(a, b, p, steps)
	for i, j := range p.newIndex {
		if j >= 0 {
			o.atMember(strconv.Itoa(i), func() { o.value(a.elements[i], b.elements[j], unsure) })
		}
	}
	for i, j := range slices.Backward(p.newIndex) {
		if j < 0 {
			o.atMember(strconv.Itoa(i), func() { o.op("remove", nil) })
		}
	}
	for _, s := range steps {
		switch {
		case s.source >= 0:
			o.move(s.source, s.index)
		case s.appends:
			o.atMember("-", func() { o.op("add", b.elements[s.index].append(nil, true)) })
		default:
			o.atMember(strconv.Itoa(s.index), func() { o.op("add", b.elements[s.index].append(nil, true)) })
		}
	}
}

// testFlat writes a test of a whole list of flat elements. If servers may write
// one of the elements differently, it writes a test of the length: an element
// that is added at the end must get the index after the last known element.
func (o *operations) testFlat(a *tree) {
	switch {
	case a.fromNil:
	case a.plainList():
		o.op("test", a.append(nil, false))
	default:
		mark := AppendString(nil, probe)
		o.atMember("-", func() { o.op("add", mark) })
		o.atMember(strconv.Itoa(len(a.elements)), func() {
			o.op("test", mark)
			o.op("remove", nil)
		})
	}
}

// plainList reports whether a server encodes each element of the list as Go
// encodes the element's type.
func (t *tree) plainList() bool {
	return !slices.ContainsFunc(t.elements, func(e *tree) bool { return !e.plain })
}

// repeats reports whether t has another element like the one at index i.
func (t *tree) repeats(i int) bool {
	for j, e := range t.elements {
		if j != i && sameTree(e, t.elements[i]) {
			return true
		}
	}
	return false
}

// flatList reports whether all elements of the list are flat.
func (t *tree) flatList() bool {
	return !slices.ContainsFunc(t.elements, func(e *tree) bool { return e.shape != shapeFlat })
}

// step is one operation that puts an element of the new list at its index: it
// adds a new element, or moves an old one.
type step struct {
	index, source int // source is -1 for a new element
	appends       bool
	touched       int // the old element that is moved or was at index, or -1
}

// arrange returns the steps that put the remaining elements and the new ones
// into the order of the new list.
func arrange(p pairing) []step {
	var order []int // indices into the new list, in the present order
	for _, j := range p.newIndex {
		if j >= 0 {
			order = append(order, j)
		}
	}
	var steps []step
	for j, i := range p.oldIndex {
		s := step{index: j, source: -1, appends: j == len(order), touched: -1}
		switch {
		case i < 0:
			if !s.appends {
				s.touched = p.oldIndex[order[j]]
			}
			order = slices.Insert(order, j, j)
		case order[j] != j:
			s.source, s.touched = slices.Index(order, j), i
			order = slices.Insert(slices.Delete(order, s.source, s.source+1), j, j)
		default:
			continue
		}
		steps = append(steps, s)
	}
	return steps
}

// testTouched writes tests that identify the elements that the patch changes,
// moves or removes. The tests precede the changes.
func (o *operations) testTouched(a, b *tree, p pairing, steps []step) {
	touched := make([]bool, len(a.elements))
	for i, j := range p.newIndex {
		touched[i] = j < 0 || !sameTree(a.elements[i], b.elements[j])
	}
	for _, s := range steps {
		if s.touched >= 0 {
			touched[s.touched] = true
		}
	}
	for i, e := range a.elements {
		o.atMember(strconv.Itoa(i), func() {
			switch {
			case slices.Contains(p.doubtful, i) && (e.shape != shapeFlat || a.repeats(i)):
				o.op("test", e.append(nil, o.exact))
			case touched[i] && !o.identify(e, false):
				o.identify(e, true)
			}
		})
	}
}

// identify writes tests of the flat values of an element. With them, the patch
// fails if another element is at its index. If inLists is set, it includes
// values inside lists. It reports whether there was a value to test.
func (o *operations) identify(e *tree, inLists bool) (found bool) {
	switch e.shape {
	case shapeFlat:
		if !e.plain || e.zero() || len(e.text) > maxTested {
			return false
		}
		o.op("test", e.text)
		return true
	case shapeObject:
		for i, m := range e.members {
			o.atMember(e.names[i], func() { found = o.identify(m, inLists) || found })
		}
	case shapeList:
		for i, m := range e.elements {
			if inLists {
				o.atMember(strconv.Itoa(i), func() { found = o.identify(m, inLists) || found })
			}
		}
	}
	return found
}
