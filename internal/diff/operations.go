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
	// maxGuesses limits how many patches are tried for one edit.
	maxGuesses = 3
)

// operations writes a JSON patch, RFC 6902, from one tree to another. The
// caller must make it a condition of the request that the server's object is
// still the one that was read. The server's object may have more members than
// the Go type knows. Where such members would be lost, the patch fails instead:
//
//   - Elements of lists are addressed by their index, and are tested first.
//   - A list or an object that is new is tested to be missing.
//   - An element that may have been either edited or removed is tested to have
//     no members that the Go type does not know.
type operations struct {
	buf   []byte
	path  []byte
	count int
	exact bool // servers encode the object by the same Go type
	guess
	guessedEmpty, guessedNil bool // the patch takes such objects for missing
	// fields holds the paths of the lists and new objects that the patch
	// depends on.
	fields []string
}

// A guess says which objects exist on the server where the Go type cannot tell.
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
	for g, more := (guess{}), true; more; {
		o := operations{buf: []byte{'['}, exact: s == Strategic, guess: g}
		o.object(a, b, 0)
		if o.count > maxOperations {
			return Patch{}, fmt.Errorf("the edit of %s takes %d operations, a server accepts %d: edit in several steps",
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
		g, more = o.nextGuess()
	}
	for _, names := range [][]string{a.names, b.names} {
		for _, name := range names {
			p.note(name, !sameTree(a.member(name), b.member(name)))
		}
	}
	return p, nil
}

// nextGuess returns the guess to try after the guess of o, and false if there
// are no more.
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
	from := fmt.Sprintf("%s/%d", o.path, source)
	o.atMember(strconv.Itoa(target), func() {
		o.op("move", nil)
		o.buf = append(o.buf[:len(o.buf)-1], `,"from":`...)
		o.buf = append(AppendString(o.buf, from), '}')
	})
}

var (
	pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
	fieldNames     = strings.NewReplacer("/", ".", "~1", "/", "~0", "~") // of a JSON pointer
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

// object writes the members that differ. unsure is how many of the objects
// above may be missing on the server.
func (o *operations) object(a, b *tree, unsure int) {
	for i, name := range b.names {
		if b.members[i].shape != shapeNull {
			o.atMember(name, func() { o.value(a.member(name), b.members[i], unsure) })
		}
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
		o.op("add", b.append(nil, false))
	case b.shape == shapeList && a != nil && a.shape == shapeList:
		o.list(a, b, unsure)
	case b.shape == shapeObject && (a == nil || a.shape == shapeNull || a.shape == shapeObject):
		o.nested(a, b, unsure)
	case a == nil || a.shape == shapeNull:
		o.create(b.append(nil, false))
	default: // the shapes differ
		o.op("add", b.append(nil, false))
	}
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

// remove removes the value at the current path. From a list or a map it removes
// only what was read, and the patch fails if the server has more.
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

// list writes the change of a list: first edited elements, then removed ones,
// then new and moved ones.
func (o *operations) list(a, b *tree, unsure int) {
	o.addDependency()
	if a.flatList() && b.flatList() {
		o.testFlat(a)
		o.op("add", b.append(nil, false))
		return
	}
	p := pair(a, b)
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

// testFlat tests a list of flat elements as a whole, if servers write all of
// them exactly as this package does.
func (o *operations) testFlat(a *tree) {
	if !a.fromNil && !slices.ContainsFunc(a.elements, func(e *tree) bool { return !e.plain }) {
		o.op("test", a.append(nil, false))
	}
}

// flatList reports whether all elements of the list are flat.
func (t *tree) flatList() bool {
	return !slices.ContainsFunc(t.elements, func(e *tree) bool { return e.shape != shapeFlat })
}

// step adds an element of the new list at its index, or moves an element to its
// index.
type step struct {
	index, source int // source is -1 for a new element
	appends       bool
	touched       int // the old element that is moved or is at index, or -1
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

// testTouched identifies the elements that the patch touches, before it changes
// any of them.
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
			case slices.Contains(p.doubtful, i) && e.shape == shapeObject:
				o.op("test", e.append(nil, o.exact))
			case touched[i] && !o.identify(e, false):
				o.identify(e, true)
			}
		})
	}
}

// identify tests the flat values of an element, including the ones inside lists
// if inLists is set. It reports whether it found any.
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
